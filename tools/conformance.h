// ONNX backend cases: a folder with model.onnx and test_data_set_N/{input_K,output_K}.pb. Finding them, running one, judging it.
//
// Who calls it: `lathe conformance` and its tests. Outputs must agree within |a - b| <= 1e-7 + 1e-3 |b| (the tolerance of the suites'
// own runner), NaN with NaN, integers and bools exactly, and in number and shape. Outputs that the file has in half precision are
// float32 here: they are rounded to the file's type first, and bfloat16 (8 bits) may differ by one unit in the last place.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/host/session.h"

namespace lathe::tools {

// Folders below `folder` (or itself) that hold a case, sorted.
Result<std::vector<std::string>> find_cases(const std::string& folder);

enum class Outcome : uint8_t { kPassed, kFailed, kUnsupported };

struct CaseResult {
  Outcome outcome = Outcome::kFailed;
  bool fixed = false;  // inputs had to be fixed by --const or --shape to what the case gives them
  std::string op;      // the operator that the case is about, or that is not supported; "(several)" for models of many nodes
  std::string reason;  // empty if it passed
};

struct CaseOptions {
  SessionOptions session;
  size_t shown_values = 1;   // of those that differ, per output
  unsigned time_limit = 60;  // seconds
};

// Never fails: an error is the case's result.
CaseResult run_case(const std::string& folder, const CaseOptions& options);
// The same in a process of its own, so that a crash or an endless loop is the case's result too. Requires: no threads are running.
CaseResult run_case_isolated(const std::string& folder, const CaseOptions& options);

}  // namespace lathe::tools
