// A verb of the `lathe` command: one file under tools/verbs/, one line in verbs.inc.
#pragma once
#include <functional>
#include <string>

#include "base/result.h"
#include "tools/arguments.h"

namespace lathe::tools {

// Does the work after the arguments were parsed. An error is printed as one line and ends with exit status 1.
using Action = std::function<Result<void>()>;

struct Verb {
  const char* name;
  const char* summary;         // one line for the overview
  const char* example;         // printed by --help
  Action (*setup)(Arguments&);  // declares options; what they bind to lives in the returned action
};

#define LATHE_VERB(name) extern const Verb kVerb_##name;
#include "tools/verbs.inc"
#undef LATHE_VERB

}  // namespace lathe::tools
