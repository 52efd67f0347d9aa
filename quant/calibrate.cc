#include "quant/calibrate.h"

#include <cmath>

#include "graph/lower/load.h"
#include "graph/lower/lower.h"
#include "runtime/host/ports.h"

namespace lathe {
namespace {

// Shapes of all graph inputs for one sample; symbolic dims are 1.
Result<std::vector<Shape>> sample_shapes(const Graph& graph) {
  std::vector<Shape> shapes;
  const std::vector<std::optional<int64_t>> ones(graph.dims().symbol_count(), 1);
  for (const ValueId v : graph.inputs()) {
    Shape s;
    s.rank = static_cast<uint32_t>(graph.value(v).type.dims.size());
    for (uint32_t i = 0; i < s.rank; ++i) {
      LATHE_TRY(const int64_t d, graph.dims().evaluate(graph.value(v).type.dims[i], ones));
      s.dims[i] = static_cast<int32_t>(d);
    }
    shapes.push_back(s);
  }
  return shapes;
}

// Feeds the observers from inside a run.
class Watcher {
 public:
  Watcher(const Graph& graph, const ProgramImage& image, const Program& program, HostSession& session, Calibration* out)
      : program_(program), session_(session) {
    observers_.resize(program.tensor_count(), nullptr);
    for (uint32_t t = 0; t < program.tensor_count(); ++t) {
      const ProgramTensor& tensor = program.tensor(t);
      const ValueId v = image.tensor_values[t];
      if (tensor.dtype != DType::kF32 || tensor.kind == TensorKind::kConstant || v == kNoId) continue;
      observers_[t] = &out->tensors.try_emplace(graph.value(v).name, out->observer).first->second;
      names_.emplace(t, graph.value(v).name);
    }
  }

  void observe(uint32_t tensor, const void* data) {
    if (observers_[tensor] == nullptr || data == nullptr || !bad_.empty()) return;
    const std::span<const float> values(static_cast<const float*>(data), session_.tensor_shape(tensor).elems());
    for (const float v : values)
      if (!std::isfinite(v)) {
        bad_ = names_.at(tensor);
        return;
      }
    observers_[tensor]->add(values);
  }

  static void after(void* self, uint32_t step) {
    auto& w = *static_cast<Watcher*>(self);
    const ProgramStep& s = w.program_.step(step);
    for (uint32_t i = 0; i < s.n_out; ++i) {
      const uint32_t t = w.program_.output(s, i);
      w.observe(t, w.session_.tensor_data(t));
    }
  }

  // The first tensor that held NaN or infinity; empty if none did.
  const std::string& bad_tensor() const { return bad_; }

 private:
  const Program& program_;
  HostSession& session_;
  std::vector<Observer*> observers_;
  std::map<uint32_t, std::string> names_;
  std::string bad_;
};

// One buffer per input and output, and pointers to them.
struct Buffers {
  std::vector<std::vector<float>> storage;
  std::vector<void*> pointers;
  void add(const Shape& shape) {
    storage.emplace_back(shape.elems() + 16);  // the kernels may read past the end
    pointers.push_back(storage.back().data());
  }
};

}  // namespace

RangeTable ranges_of(const Calibration& calibration) {
  RangeTable table;
  for (const auto& [name, observer] : calibration.tensors)
    if (!observer.empty()) table[name] = observer.range();
  return table;
}

Result<Calibration> calibrate(const Graph& graph, const SampleSource& source, const CalibrationOptions& options) {
  if (source.count == 0) return fail(Code::kInvalidArgument, "the calibration set is empty");
  for (const ValueId v : graph.inputs())
    if (graph.value(v).type.dtype != DType::kF32)
      return fail(Code::kUnsupported, "input '" + graph.value(v).name + "' is " + dtype_name(graph.value(v).type.dtype) +
                                          "; calibration takes f32 inputs");
  LATHE_TRY(const ProgramImage image, lower(graph, Target::kHost));
  LATHE_TRY(const auto program, load_program(image));
  LATHE_TRY(auto session, HostSession::create(program, options.session));
  LATHE_TRY(const std::vector<Shape> shapes, sample_shapes(graph));
  LATHE_CHECK_OK(session->bind(shapes));

  Calibration result;
  result.observer = options.observer;
  Watcher watcher(graph, image, program->program, *session, &result);
  session->set_hook({nullptr, &Watcher::after, &watcher});
  Buffers inputs, outputs;
  for (const Shape& s : shapes) inputs.add(s);
  for (uint32_t i = 0; i < program->program.header().output_count; ++i) outputs.add(session->output_shape(i));
  const std::vector<const void*> input_pointers(inputs.pointers.begin(), inputs.pointers.end());
  const std::vector<uint32_t> input_ids = port_tensors(program->program, TensorKind::kInput);
  for (uint64_t i = 0; i < source.count; ++i) {
    LATHE_CHECK_OK(source.fill(i, inputs.pointers));
    for (size_t k = 0; k < input_ids.size(); ++k) watcher.observe(input_ids[k], inputs.pointers[k]);
    if (watcher.bad_tensor().empty()) LATHE_CHECK_OK(session->run(input_pointers, outputs.pointers));
    if (!watcher.bad_tensor().empty())
      return fail(Code::kInvalidArgument,
                  "calibration sample " + std::to_string(i) + ": tensor '" + watcher.bad_tensor() + "' holds NaN or infinity");
    if (source.on_progress) source.on_progress(i + 1);
  }
  result.samples = source.count;
  return result;
}

}  // namespace lathe
