// What most tests of graphs include (graph/pch/graph_pch.h says when it is used).
#include <fstream>

#include "graph/op_def.h"
#include "tests/graph/graph_run.h"
#include "tests/pch/tests_pch.h"
