# SPDX-License-Identifier: Apache-2.0
"""What a shell reads to complete words: one function, registered for the programs."""

from __future__ import annotations

from koord.cli.completion.protocol import COMPLETION_FLAG, FILES_STATUS

# Shells before bash 4 have no compopt; there a value that is a file is not completed.
_BASH = """\
# bash completion for @PROGRAMS@
_koord_complete() {
    local line found
    COMPREPLY=()
    found=$("${COMP_WORDS[0]}" @ASKED@bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ $? -eq @FILES@ ]; then
        compopt -o default 2>/dev/null
        return 0
    fi
    while IFS= read -r line; do
        [ -n "$line" ] && COMPREPLY+=("$line")
    done <<< "$found"
    return 0
}
complete -F _koord_complete @PROGRAMS@
"""

_ZSH = """\
#compdef @PROGRAMS@
_koord_complete() {
    local -a lines
    local found
    found=$("${words[1]}" @ASKED@zsh "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $? == @FILES@ )); then
        compset -P '*='
        _files
        return
    fi
    lines=("${(@f)found}")
    lines=("${(@)lines:#}")
    (( $#lines )) && _describe -t koord 'koord' lines
}
if [ "$funcstack[1]" = "_koord_complete" ] || [ "$funcstack[1]" = "_koord" ]; then
    _koord_complete "$@"
else
    compdef _koord_complete @PROGRAMS@
fi
"""

_FISH = """\
# fish completion for @PROGRAMS@
function __koord_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l found ($program @ASKED@fish $words 2>/dev/null)
    if test $status -eq @FILES@
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\\n' $found
end
for program in @PROGRAMS@
    complete -c $program -f -a '(__koord_complete)'
end
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The scripts by shell, without the names of the programs."""


def script(shell: str, programs: tuple[str, ...]) -> str:
    """What a shell reads.

    Args:
        shell: a key of :data:`SCRIPTS`.
        programs: for which.
    """
    text = SCRIPTS[shell].replace("@PROGRAMS@", " ".join(programs))
    return text.replace("@ASKED@", COMPLETION_FLAG).replace("@FILES@", str(FILES_STATUS))
