#include "tests/train/finite_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "graph/grad/gradient.h"
#include "graph/lower/load.h"
#include "runtime/host/cpu.h"

namespace lathe::test {

Shape input_shape(const Graph& graph, ValueId v) {
  Shape shape;
  for (const Dim d : graph.value(v).type.dims) shape.dims[shape.rank++] = static_cast<int32_t>(graph.dims().value(d).value_or(3));
  return shape;
}

namespace {

using Arrays = std::vector<std::vector<std::byte>>;  // by input

Arrays make_inputs(const Graph& graph, const Range& range, int64_t modulus, std::mt19937& random) {
  Arrays arrays;
  for (const ValueId v : graph.inputs()) {
    const float shift = 0.5f - 0.15f * static_cast<float>(arrays.size());  // no two inputs hold the same numbers
    const size_t n = input_shape(graph, v).elems();
    const DType dtype = graph.value(v).type.dtype;
    std::vector<std::byte> bytes(n * dtype_bytes(dtype));
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i = 0; i < n; ++i) {
      const float real = range.lo + (range.hi - range.lo) * (static_cast<float>(order[i]) + shift) / static_cast<float>(n);
      const int64_t whole = static_cast<int64_t>(i) % modulus;
      const int32_t whole32 = static_cast<int32_t>(whole);
      if (dtype == DType::kF32) std::memcpy(bytes.data() + i * 4, &real, 4);
      else if (dtype == DType::kS64) std::memcpy(bytes.data() + i * 8, &whole, 8);
      else if (dtype == DType::kS32) std::memcpy(bytes.data() + i * 4, &whole32, 4);
      else bytes[i] = static_cast<std::byte>(i % 2);
    }
    arrays.push_back(std::move(bytes));
  }
  return arrays;
}

// Runs a graph that is lowered once with one shape.
class Runner {
 public:
  Result<void> open(const Graph& graph, const SessionOptions& options = {*machine_isa(), 1}) {
    LATHE_TRY(program_, compile_for_host(graph));
    LATHE_TRY(session_, HostSession::create(program_, options));
    std::vector<Shape> shapes;
    for (const ValueId v : graph.inputs()) shapes.push_back(input_shape(graph, v));
    LATHE_CHECK_OK(session_->bind(shapes));
    for (uint32_t i = 0; i < graph.outputs().size(); ++i) outputs_.emplace_back(session_->output_shape(i).elems());
    return {};
  }
  Result<void> run(const Arrays& inputs) {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const auto& a : inputs) in.push_back(a.data());
    for (auto& a : outputs_) out.push_back(a.data());
    return session_->run(in, out);
  }
  const std::vector<float>& output(size_t i) const { return outputs_[i]; }
  const std::vector<std::vector<float>>& outputs() const { return outputs_; }

 private:
  std::shared_ptr<const LoadedProgram> program_;
  std::unique_ptr<HostSession> session_;
  std::vector<std::vector<float>> outputs_;
};

float element(const std::vector<std::byte>& bytes, size_t i) {
  float v;
  std::memcpy(&v, bytes.data() + i * 4, 4);
  return v;
}

double total(const std::vector<float>& terms) { return std::accumulate(terms.begin(), terms.end(), 0.0); }

struct Difference {
  double worst = 0, largest = 0;
};

// d (sum of output `terms`) / d input, for every element or a sample of them.
Result<Difference> compare(Runner& forward, size_t terms, Arrays& inputs, size_t input, const Range& range,
                           const std::vector<float>& gradient) {
  const size_t n = gradient.size(), step = std::max<size_t>(n / 60, 1);
  const float h = std::min(0.01f, (range.hi - range.lo) / static_cast<float>(n) * 0.3f);
  Difference d;
  for (size_t i = 0; i < n; i += step) {
    const float at = element(inputs[input], i), up = at + h, down = at - h;
    double sums[2];
    for (int side = 0; side < 2; ++side) {
      std::memcpy(inputs[input].data() + i * 4, side == 0 ? &up : &down, 4);
      LATHE_CHECK_OK(forward.run(inputs));
      sums[side] = total(forward.output(terms));
    }
    std::memcpy(inputs[input].data() + i * 4, &at, 4);
    const double numeric = (sums[0] - sums[1]) / (double{up} - double{down});
    d.worst = std::max(d.worst, std::isfinite(gradient[i]) ? std::abs(numeric - double{gradient[i]}) : 1e30);
    d.largest = std::max(d.largest, std::abs(numeric));
  }
  return d;
}

}  // namespace

std::string check_gradients(Graph graph, ValueId terms, ValueId loss, const Range& range, int64_t modulus) {
  const size_t first = graph.outputs().size();  // of ours
  Graph forward = graph;
  forward.add_output(terms);
  std::vector<ValueId> of;
  std::vector<size_t> ports;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.value(graph.inputs()[i]).type.dtype != DType::kF32) continue;
    of.push_back(graph.inputs()[i]);
    ports.push_back(i);
  }
  const auto gradients = add_gradients(graph, loss, of);
  if (!gradients) return gradients.error().message;
  for (const ValueId v : *gradients) {
    if (v == kNoId) return "no gradient";
    graph.add_output(v);
  }
  if (const auto ok = verify(graph); !ok) return ok.error().message;
  std::mt19937 random(1);
  Arrays inputs = make_inputs(graph, range, modulus, random);
  Runner a, b;
  if (const auto ok = a.open(forward); !ok) return "forward: " + ok.error().message;
  if (const auto ok = b.open(graph); !ok) return "backward: " + ok.error().message;
  if (const auto ok = b.run(inputs); !ok) return ok.error().message;
  std::string wrong;
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto d = compare(a, first, inputs, ports[i], range, b.output(first + i));
    if (!d) return d.error().message;
    if (d->worst > 5e-3 * d->largest + 3e-4)
      wrong += "input " + std::to_string(ports[i]) + ": off by " + std::to_string(d->worst) + ", the largest is " +
               std::to_string(d->largest) + "; ";
  }
  return wrong;
}

Result<std::vector<std::vector<float>>> run_on_range(const Graph& graph, const Range& range, kernels::IsaSet isa,
                                                     uint32_t threads) {
  std::mt19937 random(1);
  const Arrays inputs = make_inputs(graph, range, 3, random);
  Runner runner;
  LATHE_CHECK_OK(runner.open(graph, {isa, threads}));
  LATHE_CHECK_OK(runner.run(inputs));
  return runner.outputs();
}

}  // namespace lathe::test
