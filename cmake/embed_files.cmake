# Writes a C++ source with the contents of files: cmake -DOUT=x.cc -DFILES=a;b -DROOT=folder -P embed_files.cmake
# It defines muster::controller::kPageFiles of controller/web/page_files.h, each file by its path below ROOT.
set(text "#include \"controller/web/page_files.h\"\n\nnamespace muster::controller {\nnamespace {\n")
set(table "")
set(number 0)
foreach(file ${FILES})
  file(READ ${ROOT}/${file} hex HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" hex "${hex}")
  file(SIZE ${ROOT}/${file} bytes)
  string(APPEND text "constexpr char kFile${number}[] =\n\"${hex}\";\n")
  string(APPEND table "    {\"${file}\", {kFile${number}, ${bytes}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
string(APPEND text "}  // namespace\n\nconst std::map<absl::string_view, absl::string_view>& PageFiles() {\n"
  "  static const auto* files = new std::map<absl::string_view, absl::string_view>{\n${table}  };\n  return *files;\n}\n\n}  // namespace muster::controller\n")
file(WRITE ${OUT} "${text}")
