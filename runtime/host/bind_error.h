// Sentences for what evaluate_dims() and bind() report.
#pragma once
#include <span>
#include <string>

#include "lathe/status.h"
#include "runtime/host/session.h"

namespace lathe {

// For evaluate_dims(): names the input and both numbers.
std::string shape_error(const LoadedProgram& loaded, std::span<const Shape> inputs, const Status& status);
// For bind(): names the step.
std::string step_error(const LoadedProgram& loaded, const Status& status);
// "'image'", or "'0'" where the file has no names.
std::string port_name(const std::vector<std::string>& names, uint32_t port);

}  // namespace lathe
