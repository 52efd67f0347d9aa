#include "tests/fuzz/exercise.h"

#include <algorithm>
#include <vector>

#include "graph/cost.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {
namespace {

constexpr double kMostMacs = 2e6;
constexpr uint64_t kMostBytes = 8u << 20;

// Whether every value that is written is small, with every symbol as 1 (an unknown dim counts as 1 as well).
bool is_small(const Graph& graph) {
  if (total_macs(graph) > kMostMacs) return false;
  uint64_t all = 0;
  for (NodeId n : graph.order())
    for (ValueId v : graph.node(n).outputs) {
      double elems = 1;
      for (Dim d : graph.value(v).type.dims) elems *= static_cast<double>(std::max<int64_t>(graph.dims().value(d).value_or(1), 1));
      if (elems > kMostBytes) return false;
      all += static_cast<uint64_t>(elems) * 4;
      if (all > kMostBytes) return false;
    }
  return true;
}

// Every symbol is 2. False if a dim is an expression.
bool port_shape(const Program& p, const ProgramTensor& t, Shape* shape) {
  *shape = {};
  shape->rank = t.rank;
  for (uint32_t i = 0; i < t.rank; ++i) {
    const ProgramDim& d = p.dim(t.dims[i]);
    if (d.op != DimOp::kConst && d.op != DimOp::kSymbol) return false;
    shape->dims[i] = d.op == DimOp::kConst ? d.a : 2;
  }
  return true;
}

// The tensors of one kind, by port.
std::vector<const ProgramTensor*> ports(const Program& p, TensorKind kind, uint32_t count) {
  std::vector<const ProgramTensor*> out(count);
  for (uint32_t i = 0; i < p.tensor_count(); ++i)
    if (p.tensor(i).kind == kind) out[p.tensor(i).port] = &p.tensor(i);
  return out;
}

uint64_t bytes_of(const Shape& shape, DType dtype) {
  uint64_t n = dtype_bytes(dtype);
  for (uint32_t i = 0; i < shape.rank; ++i) {
    n *= static_cast<uint64_t>(std::max(shape.dims[i], 0));
    if (n > kMostBytes) return kMostBytes + 1;
  }
  return n;
}

bool is_small(const HostSession& session, const Program& program) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < program.tensor_count(); ++i) {
    all += bytes_of(session.tensor_shape(i), program.tensor(i).dtype);
    if (all > kMostBytes) return false;
  }
  double macs = 0;
  for (uint32_t i = 0; i < session.plan().step_count; ++i) macs += static_cast<double>(session.step_macs(i));
  return macs <= kMostMacs;
}

void run(HostSession& session, const Program& program, const std::vector<const ProgramTensor*>& in,
         const std::vector<Shape>& shapes) {
  std::vector<std::vector<uint8_t>> from, to;
  // Odd bytes: as indices they lie outside most tensors; floats are ordinary numbers.
  for (size_t i = 0; i < in.size(); ++i) {
    from.emplace_back(bytes_of(shapes[i], in[i]->dtype));
    for (size_t k = 0; k < from.back().size(); ++k)
      from.back()[k] = static_cast<uint8_t>(in[i]->dtype == DType::kBool                  ? k & 1
                                            : in[i]->dtype == DType::kF32 && k % 4 == 3 ? 0x3f
                                                                                        : k * 7);
  }
  const auto out = ports(program, TensorKind::kOutput, program.header().output_count);
  for (uint32_t i = 0; i < out.size(); ++i) to.emplace_back(bytes_of(session.output_shape(i), out[i]->dtype));
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const auto& v : from) inputs.push_back(v.data());
  for (auto& v : to) outputs.push_back(v.data());
  (void)session.run(inputs, outputs);
}

}  // namespace

void exercise(const std::shared_ptr<const LoadedProgram>& program) {
  const Program& p = program->program;
  const auto in = ports(p, TensorKind::kInput, p.header().input_count);
  std::vector<Shape> shapes(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    if (!port_shape(p, *in[i], &shapes[i]) || bytes_of(shapes[i], in[i]->dtype) > kMostBytes) return;
  static const auto isa = machine_isa();
  if (!isa) return;
  auto session = HostSession::create(program, {.isa = *isa, .threads = 1});
  if (!session || !(*session)->bind(shapes)) return;
  if (is_small(**session, p)) run(**session, p, in, shapes);
}

void exercise(const Graph& graph) {
  if (!is_small(graph)) return;
  if (auto program = compile_for_host(graph)) exercise(*program);
}

}  // namespace lathe::fuzz
