#include "train/non_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/host/ports.h"

namespace lathe::train {
namespace {

// Follows a run step by step.
class Search {
 public:
  Search(const LoadedProgram& loaded, const HostSession& session)
      : loaded_(loaded), session_(session), known_(loaded.program.tensor_count()) {}

  StepHook hook() {
    return {nullptr, [](void* self, uint32_t step) { static_cast<Search*>(self)->look(step); }, this};
  }
  const std::string& found() const { return found_; }

 private:
  void look(uint32_t step) {
    if (!found_.empty()) return;
    const Program& p = loaded_.program;
    const ProgramStep& s = p.step(step);
    bool sound = true;
    for (uint32_t i = 0; i < s.n_in; ++i) {
      const uint32_t t = p.operand(s, i);
      if (t == kNoTensor) continue;
      if (!known_[t]) {  // no step made it
        known_[t] = finite(t);
        if (!*known_[t]) name_source(t);
      }
      sound = sound && *known_[t];
    }
    for (uint32_t i = 0; i < s.n_out; ++i) {
      const uint32_t t = p.output(s, i);
      if (t == kNoTensor) continue;
      known_[t] = finite(t);
      if (sound && !*known_[t] && found_.empty())
        found_ = "the result of " + loaded_.step_ops[step] + " '" + loaded_.step_names[step] + "'";
    }
  }

  void name_source(uint32_t t) {
    const ProgramTensor& tensor = loaded_.program.tensor(t);
    if (tensor.kind == TensorKind::kInput) found_ = "input '" + loaded_.input_names[tensor.port] + "'";
    if (tensor.kind == TensorKind::kVariable) found_ = "'" + loaded_.variable_names[tensor.port] + "'";
  }

  bool finite(uint32_t t) const {
    if (loaded_.program.tensor(t).dtype != DType::kF32) return true;
    const auto* data = reinterpret_cast<const float*>(session_.tensor_data(t));
    if (data == nullptr) return true;
    return std::all_of(data, data + session_.tensor_shape(t).elems(), [](float v) { return std::isfinite(v); });
  }

  const LoadedProgram& loaded_;
  const HostSession& session_;
  std::vector<std::optional<bool>> known_;  // by tensor: whether it is finite
  std::string found_;
};

}  // namespace

Result<std::string> find_non_finite(const TrainingProgram& program, const VariableBytes& variables) {
  LATHE_TRY(const std::unique_ptr<HostSession> session, program.open_session());
  for (uint32_t port = 0; port < variables.size(); ++port) session->write_variable(port, variables[port]);
  Search search(program.program(), *session);
  session->set_hook(search.hook());
  LATHE_CHECK_OK(session->run(program.inputs(), program.outputs()));
  return search.found();
}

}  // namespace lathe::train
