// What the shells run when TAB is pressed: each asks `muster __complete` with the words so far.
#include "cli/grammar/completion.h"

namespace muster::cli {
namespace {

constexpr char kBash[] = R"(# bash completion of muster: source <(muster completion bash)
_muster() {
  local words candidate files=0 before=
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
  local current=${words[-1]}
  # bash takes `=` for the end of a word.
  [[ $current == --*=* ]] && before=${current%%=*}=
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    if [[ $candidate == :files ]]; then
      files=1
    else
      COMPREPLY+=("${candidate#"$before"}")
    fi
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  if ((files)); then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${current#"$before"}")
  fi
}
complete -F _muster muster
)";

constexpr char kZsh[] = R"(#compdef muster
# zsh completion of muster: source <(muster completion zsh), or this as _muster in $fpath
_muster() {
  local -a described
  local line files=0
  for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :files ]]; then
      files=1
    elif [[ $line == *$'\t'* ]]; then
      described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    elif [[ -n $line ]]; then
      described+=("${line//:/\\:}")
    fi
  done
  (( $#described )) && _describe -V muster described
  (( files )) && _files
  return 0
}
if [[ ${funcstack[1]} == _muster ]]; then
  _muster "$@"
else
  compdef _muster muster
fi
)";

constexpr char kFish[] = R"(# fish completion of muster: muster completion fish | source
function __muster_complete
  set -l current (commandline -ct)
  set -l words (commandline -opc) "$current"
  for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path "$current"
    else
      printf '%s\n' $line
    end
  end
end
complete -c muster -f -a '(__muster_complete)'
)";

}  // namespace

const char* CompletionScript(absl::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return nullptr;
}

}  // namespace muster::cli
