// Decodes crops of pictures as a loader does, for pictures_against_pil.py. Reads
// lines from standard input,
//   FILE X Y WIDTH HEIGHT OUTPUT_WIDTH OUTPUT_HEIGHT CHANNELS FLIP UPRIGHT
// and writes the pixels of all of them to standard output, one after the other.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "worker/data/pictures/picture_decoder.h"

int main() {
  muster::worker::PictureDecoder decoder;
  std::string path;
  muster::worker::CropBox crop;
  muster::worker::PictureTarget target;
  while (std::cin >> path >> crop.x >> crop.y >> crop.width >> crop.height >> target.width >>
         target.height >> target.channels >> target.flip >> target.upright) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::vector<uint8_t> out(static_cast<size_t>(target.width) *
                             static_cast<size_t>(target.height) *
                             static_cast<size_t>(target.channels));
    target.pixels = out.data();
    const auto header = muster::worker::ReadPictureHeader(bytes);
    const absl::Status status =
        header.ok() ? decoder.Decode(bytes, *header, crop, target) : header.status();
    if (!status.ok()) {
      std::cerr << path << " " << status.message() << "\n";
      return 1;
    }
    std::cout.write(reinterpret_cast<const char*>(out.data()),
                    static_cast<std::streamsize>(out.size()));
  }
  return 0;
}
