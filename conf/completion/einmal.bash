# Completion of einmal(1) for bash. Made from the rows of the command line (proxy/cli.c, proxy/cli_options.c): do not edit.
_einmal()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} first=2
    local options= kind= words=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "run check explain actions tasks backup health wait drain help --help --version" -- "$cur")
        return
    fi
    case $command in
    actions) words='list show resolve forget' ;;
    tasks) words='show' ;;
    esac
    if [[ $words ]]; then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "$words --help" -- "$cur")
            return
        fi
        command+=" ${COMP_WORDS[2]}" first=3
    fi
    words=
    case $command in
    'run')
        options='-c --config --upstream --listen --data --admin -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --upstream) kind=text ;;
        --listen) kind=text ;;
        --data) kind=file ;;
        --admin) kind=text ;;
        esac
        ;;
    'check')
        options='-c --config --upstream --listen --data --admin --print -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --upstream) kind=text ;;
        --listen) kind=text ;;
        --data) kind=file ;;
        --admin) kind=text ;;
        esac
        ;;
    'explain')
        options='-c --config --upstream -X --method -H --header -d --data --cert --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --upstream) kind=text ;;
        -X | --method) kind=text ;;
        -H | --header) kind=text ;;
        -d | --data) kind=text ;;
        --cert) kind=file ;;
        esac
        ;;
    'actions list')
        options='-c --config --admin --token-file --state --route --task --key --limit --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        --state) kind=words words='in_progress completed unknown' ;;
        --route) kind=text ;;
        --task) kind=text ;;
        --key) kind=text ;;
        --limit) kind=text ;;
        esac
        ;;
    'actions show')
        options='-c --config --admin --token-file --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        esac
        ;;
    'actions resolve')
        options='-c --config --admin --token-file -H --header --completed --not-executed --status --body --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        -H | --header) kind=text ;;
        --status) kind=text ;;
        --body) kind=text ;;
        esac
        ;;
    'actions forget')
        options='-c --config --admin --token-file --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        esac
        ;;
    'tasks show')
        options='-c --config --admin --token-file --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        esac
        ;;
    'backup')
        options='-c --config --admin --token-file --force -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        esac
        ;;
    'health')
        options='-c --config --admin --token-file --ready --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        esac
        ;;
    'wait')
        options='-c --config --admin --token-file --max --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        --max) kind=text ;;
        esac
        ;;
    'drain')
        options='-c --config --admin --token-file --max --json -h --help'
        case $prev in
        -c | --config) kind=file ;;
        --admin) kind=text ;;
        --token-file) kind=file ;;
        --max) kind=text ;;
        esac
        ;;
    esac
    ((COMP_CWORD >= first)) || return
    if [[ ! $kind && $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    elif [[ $kind == words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    elif [[ $kind == file || (! $kind && $command == backup) ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _einmal einmal
