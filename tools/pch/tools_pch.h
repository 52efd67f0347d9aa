// What most files here include (graph/pch/graph_pch.h says when it is used).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "tools/model.h"
#include "tools/verb.h"
