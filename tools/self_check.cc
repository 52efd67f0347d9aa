#include "tools/self_check.h"

#include <cmath>
#include <cstring>

#include "graph/lower/load.h"
#include "tools/data_binding.h"
#include "tools/runner.h"

namespace lathe::tools {
namespace {

constexpr size_t kMaxBytes = 16384;
constexpr double kTolerance = 1e-4;

TestArray to_array(DType dtype, const Shape& shape, const uint8_t* data) {
  TestArray array{dtype, {}, {}};
  array.dims.assign(shape.dims, shape.dims + shape.rank);
  array.data.assign(data, data + static_cast<size_t>(shape.elems()) * dtype_bytes(dtype));
  return array;
}

size_t total_bytes(const SelfCheck& check) {
  size_t n = 0;
  for (const TestArray& a : check.inputs) n += a.data.size();
  for (const TestArray& a : check.outputs) n += a.data.size();
  return n;
}

Result<void> compare_f32(const TestArray& expected, const uint8_t* got, const std::string& where) {
  const size_t n = expected.data.size() / sizeof(float);
  double largest = 0, worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    float a, b;
    std::memcpy(&a, got + i * sizeof a, sizeof a);
    std::memcpy(&b, expected.data.data() + i * sizeof b, sizeof b);
    largest = std::max<double>(largest, std::fabs(b));
    const double d = std::fabs(static_cast<double>(a) - b);
    if (!(d <= worst)) {
      worst = d;
      at = i;
    }
  }
  if (worst <= kTolerance * largest) return {};
  return fail(Code::kCorrupt, where + ", element " + std::to_string(at) + ": differs by " + std::to_string(worst) +
                                  ", the largest value is " + std::to_string(largest));
}

Result<void> compare(const TestArray& expected, const Shape& shape, const uint8_t* got, const std::string& where) {
  if (!std::equal(expected.dims.begin(), expected.dims.end(), shape.dims, shape.dims + shape.rank))
    return fail(Code::kCorrupt, where + ": shape differs");
  if (expected.data.size() != static_cast<size_t>(shape.elems()) * dtype_bytes(expected.dtype))
    return fail(Code::kCorrupt, where + ": size differs");
  if (expected.dtype == DType::kF32) return compare_f32(expected, got, where);
  for (size_t i = 0; i < expected.data.size(); ++i)
    if (expected.data[i] != got[i])
      return fail(Code::kCorrupt, where + ", byte " + std::to_string(i) + ": is " + std::to_string(got[i]) + ", was " +
                                      std::to_string(expected.data[i]));
  return {};
}

Result<void> run_one(const SelfCheck& check, Runner& runner, const std::string& where) {
  if (check.inputs.size() != runner.input_count() || check.outputs.size() != runner.output_count())
    return fail(Code::kCorrupt, where + ": number of inputs or outputs differs");
  std::vector<Shape> shapes;
  for (size_t i = 0; i < check.inputs.size(); ++i) {
    const TestArray& a = check.inputs[i];
    Shape s;
    s.rank = static_cast<uint32_t>(a.dims.size());
    if (s.rank > kMaxRank || a.dtype != runner.input_tensor(i).dtype)
      return fail(Code::kCorrupt, where + ": input " + std::to_string(i) + " has another type");
    std::copy(a.dims.begin(), a.dims.end(), s.dims);
    shapes.push_back(s);
  }
  LATHE_CHECK_OK(runner.bind(shapes));
  for (size_t i = 0; i < check.inputs.size(); ++i) {
    if (check.inputs[i].data.size() != static_cast<size_t>(shapes[i].elems()) * dtype_bytes(check.inputs[i].dtype))
      return fail(Code::kCorrupt, where + ": input " + std::to_string(i) + " has another size");
    std::memcpy(runner.input(i), check.inputs[i].data.data(), check.inputs[i].data.size());
  }
  LATHE_CHECK_OK(runner.run());
  for (size_t i = 0; i < check.outputs.size(); ++i) {
    if (check.outputs[i].dtype != runner.output_tensor(i).dtype)
      return fail(Code::kCorrupt, where + ": output " + std::to_string(i) + " has another type");
    LATHE_CHECK_OK(compare(check.outputs[i], runner.output_shape(i), runner.output(i), where + ", output " + std::to_string(i)));
  }
  return {};
}

}  // namespace

Result<std::vector<SelfCheck>> make_self_checks(const Graph& graph, const Dataset& data, const SessionOptions& session) {
  LATHE_TRY(const auto program, compile_for_host(graph));
  LATHE_TRY(Runner runner, Runner::create(program, session));
  LATHE_TRY(const ChosenSplit chosen, data.for_calibration());
  LATHE_TRY(const auto matching, match_inputs(model_inputs(*program), graph.metadata, data));
  LATHE_CHECK_OK(predict(runner, data, *chosen.split, matching, {.limit = 1, .batch = 1, .progress = ""},
                         [](uint64_t, const auto&) -> Result<void> { return {}; }));
  SelfCheck check;
  for (size_t i = 0; i < runner.input_count(); ++i)
    check.inputs.push_back(to_array(runner.input_tensor(i).dtype, runner.input_shape(i), runner.input(i)));
  for (size_t i = 0; i < runner.output_count(); ++i)
    check.outputs.push_back(to_array(runner.output_tensor(i).dtype, runner.output_shape(i), runner.output(i)));
  std::vector<SelfCheck> checks;
  if (total_bytes(check) <= kMaxBytes) checks.push_back(std::move(check));
  return checks;
}

Result<void> run_self_checks(const std::vector<SelfCheck>& checks, std::shared_ptr<const LoadedProgram> program,
                             const SessionOptions& session) {
  LATHE_TRY(Runner runner, Runner::create(std::move(program), session));
  for (size_t i = 0; i < checks.size(); ++i) LATHE_CHECK_OK(run_one(checks[i], runner, "self-check " + std::to_string(i)));
  return {};
}

}  // namespace lathe::tools
