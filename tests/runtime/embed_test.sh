#!/usr/bin/env bash
# The embedding examples run a model and agree: embed_test.sh WRITE_SAMPLE EMBED EMBED_C.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$1" "$dir/m.lathe"
"$2" "$dir/m.lathe" | tee "$dir/cc"
"$3" "$dir/m.lathe" >"$dir/c"
grep -qE '^output scores:( [0-9.e-]+){10}$' "$dir/cc"
diff <(grep ^output "$dir/cc") "$dir/c"
head -c 200 "$dir/m.lathe" >"$dir/short.lathe"
for program in "$2" "$3"; do
  status=0
  "$program" "$dir/short.lathe" 2>"$dir/error" || status=$?
  [[ $status == 1 && $(wc -l <"$dir/error") == 1 ]]
done
