// What most files of graph/ and quant/ include, compiled once where -Db_pch=true says so: it halves an unoptimized build. No
// file may rely on it; builds without it (the default) show.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "graph/rewriter.h"
