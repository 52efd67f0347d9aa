// What most files of graph/, quant/ and train/ include, compiled once: a release build of them takes two thirds of the time, an
// unoptimized one half. No file may rely on it; builds with -Db_pch=false, which suit compiler caches, show.
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
