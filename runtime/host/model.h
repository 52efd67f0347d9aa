// A compiled `.lathe` file on a host: mapped, checked, its PLAN ready to run without copying a weight.
//
// Who calls it: the public API, `run`, `bench` and every verb that needs no graph. Thread-safe: the result is immutable.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/file.h"
#include "runtime/host/session.h"

namespace lathe {

// Maps `path` and opens its plan for hosts. Errors name the file: not there, damaged (which section), newer, or without a plan
// (`lathe compile` or `lathe quantize` makes one).
Result<std::shared_ptr<const LoadedProgram>> load_program(const std::string& path);
// The same from bytes on a 64-byte boundary; `owner` keeps them alive (null: the caller does).
Result<std::shared_ptr<const LoadedProgram>> load_program(Bytes file, std::shared_ptr<const void> owner);

// A sentence for an error of file_open() or program_open().
std::string describe_file_error(const Status& status);
std::string describe_program_error(const Status& status);

}  // namespace lathe
