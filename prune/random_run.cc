#include "prune/random_run.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/hash.h"
#include "graph/lower/load.h"
#include "graph/op_def.h"
#include "lathe/float16.h"
#include "runtime/host/cpu.h"
#include "runtime/host/ports.h"
#include "runtime/host/session.h"

namespace lathe::prune {
namespace {

constexpr int kMostHops = 8;  // between an input and the table it picks from

// The smallest table that integers of `v` pick rows from, straight or through operators of one operand; 2 if there is none.
int64_t rows_picked(const Graph& graph, ValueId v, int hops = kMostHops) {
  int64_t rows = 0;
  for (const NodeId id : graph.consumers(v)) {
    const Node& node = graph.node(id);
    const OpDef& def = op_def(node.op);
    int64_t found = 0;
    if (def.takes_rows != nullptr && node.inputs.size() > 1 && node.inputs[1] == v && def.takes_rows(node.attrs))
      found = graph.dims().value(graph.value(node.inputs[0]).type.dims[0]).value_or(0);
    else if (hops > 0 && node.inputs[0] == v && !node.outputs.empty()) found = rows_picked(graph, node.outputs[0], hops - 1);
    if (found > 2) rows = rows == 0 ? found : std::min(rows, found);
  }
  return std::max<int64_t>(rows, 2);
}

// Bytes of one input: kernels may read past the end, so there are more than its elements.
class Input {
 public:
  Input(DType dtype, size_t count) : dtype_(dtype), bytes_(count * dtype_bytes(dtype) + 64), count_(count) {}

  void fill(std::mt19937_64& random, int64_t rows) {
    std::normal_distribution<float> real;
    for (size_t i = 0; i < count_; ++i) {
      const bool is_real = dtype_ == DType::kF32 || dtype_ == DType::kF64 || dtype_ == DType::kF16 || dtype_ == DType::kBF16;
      if (is_real) put_real(i, real(random));
      else put_integer(i, static_cast<int64_t>(random() % static_cast<uint64_t>(rows)));
    }
  }
  const void* data() const { return bytes_.data(); }

 private:
  template <class T>
  void put(size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }
  void put_real(size_t i, float value) {
    if (dtype_ == DType::kF32) put(i, value);
    else if (dtype_ == DType::kF64) put(i, static_cast<double>(value));
    else if (dtype_ == DType::kF16) put(i, float_to_half(value));
    else put(i, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  // Little-endian, as all hosts are.
  void put_integer(size_t i, int64_t value) { std::memcpy(bytes_.data() + i * dtype_bytes(dtype_), &value, dtype_bytes(dtype_)); }

  DType dtype_;
  std::vector<std::byte> bytes_;
  size_t count_;
};

double element(const std::byte* at, DType dtype) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(read(0.0f));
    case DType::kF64:
      return read(0.0);
    case DType::kF16:
      return static_cast<double>(half_to_float(read(uint16_t{0})));
    case DType::kS64:
      return static_cast<double>(read(int64_t{0}));
    case DType::kS32:
      return static_cast<double>(read(int32_t{0}));
    default:
      return static_cast<double>(std::to_integer<uint8_t>(*at));
  }
}

constexpr int64_t kSizes[] = {64, 256, 1024};  // tried for symbols that are no batch: heights, lengths

Result<std::vector<Shape>> input_shapes(const Graph& graph, int64_t batch, int64_t size) {
  std::vector<std::optional<int64_t>> symbols(graph.dims().symbol_count(), size);
  for (const ValueId v : graph.inputs()) {
    const std::vector<Dim>& dims = graph.value(v).type.dims;
    if (dims.size() < 2 || graph.dims().node(dims[0]).op != DimOp::kSymbol) continue;
    symbols[static_cast<size_t>(graph.dims().node(dims[0]).a)] = batch;
  }
  std::vector<Shape> shapes;
  for (const ValueId v : graph.inputs()) {
    const std::vector<Dim>& dims = graph.value(v).type.dims;
    Shape shape;
    shape.rank = static_cast<uint32_t>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      LATHE_TRY(const int64_t extent, graph.dims().evaluate(dims[i], symbols));
      shape.dims[i] = static_cast<int32_t>(extent);
    }
    shapes.push_back(shape);
  }
  return shapes;
}

// Binds to the smallest sizes that the network takes.
Result<std::vector<Shape>> bind_shapes(const Graph& graph, HostSession& session, int64_t batch) {
  Result<void> bound;
  for (const int64_t size : kSizes) {
    LATHE_TRY(std::vector<Shape> shapes, input_shapes(graph, batch, size));
    bound = session.bind(shapes);
    if (bound) return shapes;
  }
  return tl::unexpected<Error>(std::move(bound.error()));
}

}  // namespace

Result<std::vector<RunOutput>> run_random(const Graph& graph, const RandomRun& options) {
  LATHE_TRY(const std::shared_ptr<const LoadedProgram> loaded, compile_for_host(graph));
  LATHE_TRY(const kernels::IsaSet isa, machine_isa());
  LATHE_TRY(const std::unique_ptr<HostSession> session, HostSession::create(loaded, {.isa = isa}));
  LATHE_TRY(const std::vector<Shape> shapes, bind_shapes(graph, *session, options.batch));
  std::vector<Input> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Value& v = graph.value(graph.inputs()[i]);
    std::mt19937_64 random(options.seed ^ hash128(v.name).low);
    inputs.emplace_back(v.type.dtype, shapes[i].elems()).fill(random, rows_picked(graph, graph.inputs()[i]));
  }
  const std::vector<uint32_t> ports = port_tensors(loaded->program, TensorKind::kOutput);
  std::vector<std::vector<std::byte>> outputs;
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (session->is_open(i))
      return fail(Code::kUnsupported, "the size of output '" + loaded->output_names[i] + "' depends on data");
    outputs.emplace_back(session->output_shape(i).elems() * dtype_bytes(loaded->program.tensor(ports[i]).dtype) + 64);
  }
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Input& input : inputs) from.push_back(input.data());
  for (auto& output : outputs) to.push_back(output.data());
  LATHE_CHECK_OK(session->run(from, to));
  std::vector<RunOutput> results;
  for (uint32_t i = 0; i < ports.size(); ++i) {
    const Shape& shape = session->output_shape(i);
    RunOutput out{.name = loaded->output_names[i], .dims = {}, .values = {}};
    for (uint32_t d = 0; d < shape.rank; ++d) out.dims.push_back(shape[d]);
    const DType dtype = loaded->program.tensor(ports[i]).dtype;
    for (size_t k = 0; k < shape.elems(); ++k) out.values.push_back(element(outputs[i].data() + k * dtype_bytes(dtype), dtype));
    results.push_back(std::move(out));
  }
  return results;
}

}  // namespace lathe::prune
