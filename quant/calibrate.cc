#include "quant/calibrate.h"

#include <algorithm>
#include <cmath>

#include "graph/lower/load.h"
#include "graph/lower/lower.h"
#include "graph/op_def.h"
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

// How far below the largest of its row a value counts for those that read v; 0: all of it, or somebody wants the whole range.
float reach_of(const Graph& graph, ValueId v) {
  float reach = 0;
  if (graph.is_output(v)) return 0;
  for (const NodeId n : graph.consumers(v)) {
    const Node& node = graph.node(n);
    const OpDef& def = op_def(node.op);
    const bool other = std::count(node.inputs.begin() + 1, node.inputs.end(), v) > 0;
    const float own = def.reach == nullptr || other ? 0 : def.reach(node.attrs, graph.value(v).type.dims.size());
    if (own == 0) return 0;
    reach = std::max(reach, own);
  }
  return reach;
}

// Feeds the observers from inside a run.
class Watcher {
 public:
  Watcher(const Graph& graph, const ProgramImage& image, const Program& program, HostSession& session, Calibration* out)
      : program_(program), session_(session) {
    observers_.resize(program.tensor_count(), nullptr);
    reach_.resize(program.tensor_count(), 0);
    for (uint32_t t = 0; t < program.tensor_count(); ++t) {
      const ProgramTensor& tensor = program.tensor(t);
      const ValueId v = image.tensor_values[t];
      if (tensor.dtype != DType::kF32 || tensor.kind == TensorKind::kConstant || v == kNoId) continue;
      observers_[t] = &out->tensors.try_emplace(graph.value(v).name, out->observer).first->second;
      names_.emplace(t, graph.value(v).name);
      reach_[t] = reach_of(graph, v);
    }
  }

  void observe(uint32_t tensor, const void* data) {
    if (observers_[tensor] == nullptr || data == nullptr || !bad_.empty()) return;
    const Shape shape = session_.tensor_shape(tensor);
    std::span<const float> values(static_cast<const float*>(data), shape.elems());
    if (reach_[tensor] > 0) values = lifted(values, static_cast<size_t>(shape[shape.rank - 1]), reach_[tensor]);
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
  // The values with those that lie too low in their row raised to where they begin to count. A row of -infinity stays.
  std::span<const float> lifted(std::span<const float> values, size_t row, float reach) {
    scratch_.assign(values.begin(), values.end());
    for (size_t at = 0; at + row <= scratch_.size() && row > 0; at += row) {
      const auto begin = scratch_.begin() + static_cast<ptrdiff_t>(at), end = begin + static_cast<ptrdiff_t>(row);
      const float lowest = *std::max_element(begin, end) - reach;
      std::for_each(begin, end, [&](float& v) { v = v < lowest ? lowest : v; });
    }
    return scratch_;
  }

  const Program& program_;
  HostSession& session_;
  std::vector<Observer*> observers_;
  std::vector<float> reach_;  // by tensor; 0: the whole range counts
  std::vector<float> scratch_;
  std::map<uint32_t, std::string> names_;
  std::string bad_;
};

// One buffer per input and output, and pointers to them.
struct Buffers {
  std::vector<std::vector<uint64_t>> storage;
  std::vector<void*> pointers;
  void add(const Shape& shape, DType dtype) {
    storage.emplace_back(size_t{shape.elems()} * dtype_bytes(dtype) / sizeof(uint64_t) + 9);  // kernels may read past the end
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
  LATHE_TRY(const ProgramImage image, lower(graph, Target::kHost));
  LATHE_TRY(const auto program, load_program(image));
  SessionOptions dense = options.session;
  dense.elide = false;  // every activation is looked at
  LATHE_TRY(auto session, HostSession::create(program, dense));
  LATHE_TRY(const std::vector<Shape> shapes, sample_shapes(graph));
  LATHE_CHECK_OK(session->bind(shapes));

  Calibration result;
  result.observer = options.observer;
  Watcher watcher(graph, image, program->program, *session, &result);
  session->set_hook({nullptr, &Watcher::after, &watcher});
  Buffers inputs, outputs;
  const std::vector<uint32_t> input_ids = port_tensors(program->program, TensorKind::kInput);
  const std::vector<uint32_t> output_ids = port_tensors(program->program, TensorKind::kOutput);
  for (size_t i = 0; i < input_ids.size(); ++i) inputs.add(shapes[i], program->program.tensor(input_ids[i]).dtype);
  for (uint32_t i = 0; i < output_ids.size(); ++i)
    outputs.add(session->output_shape(i), program->program.tensor(output_ids[i]).dtype);
  const std::vector<const void*> input_pointers(inputs.pointers.begin(), inputs.pointers.end());
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
