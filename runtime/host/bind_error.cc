#include "runtime/host/bind_error.h"

namespace lathe {
namespace {

const ProgramTensor* input_tensor(const Program& p, uint32_t port) {
  for (uint32_t t = 0; t < p.tensor_count(); ++t)
    if (p.tensor(t).kind == TensorKind::kInput && p.tensor(t).port == port) return &p.tensor(t);
  return nullptr;
}

}  // namespace

std::string port_name(const std::vector<std::string>& names, uint32_t port) {
  return "'" + (port < names.size() ? names[port] : std::to_string(port)) + "'";
}

std::string shape_error(const LoadedProgram& loaded, std::span<const Shape> inputs, const Status& s) {
  const uint32_t port = s.where / kMaxRank, axis = s.where % kMaxRank;
  const ProgramTensor* t =
      s.code == Code::kInvalidArgument && port < inputs.size() ? input_tensor(loaded.program, port) : nullptr;
  if (t == nullptr) return "shapes cannot be computed: " + describe(s);
  const std::string name = "input " + port_name(loaded.input_names, port);
  if (inputs[port].rank != t->rank)
    return name + " needs " + std::to_string(t->rank) + " dims, got " + std::to_string(inputs[port].rank);
  const auto got = std::to_string(static_cast<int32_t>(s.got));
  if (inputs[port].dims[axis] < 0) return name + ": axis " + std::to_string(axis) + " is negative: " + got;
  if (inputs[port].dims[axis] == 0 && loaded.program.dim(t->dims[axis]).op == DimOp::kSymbol)
    return name + ": axis " + std::to_string(axis) + " must be at least 1, got 0";
  std::string text = name + ": axis " + std::to_string(axis) + " must be " + std::to_string(s.needed) + ", got " + got;
  const ProgramDim& d = loaded.program.dim(t->dims[axis]);
  if (d.op != DimOp::kSymbol) return text;
  const auto symbol = static_cast<size_t>(d.a);
  return text + " (it is the same dimension" + (symbol < loaded.symbol_names.size() ? " " + loaded.symbol_names[symbol] : "") +
         " as another axis)";
}

std::string step_error(const LoadedProgram& loaded, const Status& s) {
  std::string text = "step " + std::to_string(s.where);
  if (s.where < loaded.step_names.size()) text += " '" + loaded.step_names[s.where] + "'";
  if (s.where < loaded.program.step_count())
    if (const char* op = op_name(static_cast<Op>(loaded.program.step(s.where).op)); op != nullptr)
      text += std::string(" (") + op + ")";
  return text + ": " + describe(s);
}

}  // namespace lathe
