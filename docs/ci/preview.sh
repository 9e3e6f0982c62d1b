#!/bin/sh
# Previews one environment for a pull request: preview.sh ENVIRONMENT [OPTION...]
# Writes preview.md, the comment to post. Ends with 0 when the change may be merged, whatever it brings, with 2 when the
# platform or a mandatory rule would refuse it, and with 3 when it cannot be told.
set -eu
environment=$1
shift
code=0
"${PYTHON:-.venv/bin/python}" -m cli preview --stack "$environment" -o markdown "$@" \
    >preview.out 2>preview.err || code=$?
previewed=no
[ ! -s preview.out ] || previewed=yes
{
    # By this line the pipeline finds the comment that it wrote before.
    echo "<!-- preview: $environment -->"
    echo "## $environment"
    echo
    cat preview.out
    if [ -s preview.err ]; then
        echo
        # Indented, it is shown as it is.
        sed 's/^/    /' preview.err
    fi
} >preview.md
cat preview.err >&2
rm -f preview.out preview.err
case $code in
    0 | 2 | 3) exit "$code" ;;
    # Python also ends with 1 when it cannot start at all, and then it has printed nothing.
    1) [ "$previewed" = no ] || exit 0 ;;
esac
exit 3
