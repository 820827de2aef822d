"""Completion of names in bash and zsh: commands first, then the experiments of those commands that
take them.
"""

from __future__ import annotations

from saccade.errors import checked_choice
from saccade.experiments import EXPERIMENTS

_WITH_EXPERIMENTS = ("reproduce", "run", "sweep")

_BASH = """_saccade() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} names=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        names="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in {taking}) names="{experiments}" ;; esac
    fi
    COMPREPLY=($(compgen -W "$names" -- "$word"))
}}
complete -o default -F _saccade saccade
"""

# In a folder of $fpath zsh reads it at the first Tab, as the body of `_saccade`, and wants an
# answer; `eval` only announces it.
_ZSH = """#compdef saccade
_saccade() {{
    if (( CURRENT == 2 )); then
        compadd -- {commands}
    else
        case "$words[2]" in
            {taking}) compadd -- {experiments} ;;
        esac
        _files
    fi
}}
if [[ "$funcstack[1]" == _saccade ]]; then
    _saccade "$@"
else
    (( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
    compdef _saccade saccade
fi
"""


def completion(shell: str, commands: list[str]) -> str:
    """The script that teaches a shell the names; put it where the shell reads scripts, or `eval`
    it.
    """
    script = {"bash": _BASH, "zsh": _ZSH}[checked_choice("shell", shell, ("bash", "zsh"))]
    return script.format(
        commands=" ".join(commands),
        experiments=" ".join(EXPERIMENTS),
        taking="|".join(_WITH_EXPERIMENTS),
    )
