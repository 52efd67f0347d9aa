// If and Loop. A branch that is known to be taken stands for its If; where the condition depends on data both branches run and
// each result is chosen. A loop whose number of runs is known is written out.
#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

constexpr int64_t kMaxRuns = 4096;

ConstTensor scalar(const std::string& name, DType dtype, int64_t value) {
  if (dtype == DType::kBool) return {name, dtype, {}, Constant::of(std::vector<uint8_t>{static_cast<uint8_t>(value != 0)})};
  return {name, dtype, {}, Constant::of(std::vector<int64_t>{value})};
}

Binding constant_binding(ConstTensor t) { return {kNoId, std::make_shared<const ConstTensor>(std::move(t))}; }

// The one element of a known condition or count.
Result<int64_t> single(const ConstTensor& t, DType dtype, const char* what) {
  if (t.dtype != dtype || t.elems() != 1)
    return fail(Code::kInvalidArgument, std::string(what) + " is " + dtype_name(t.dtype) + " with " + std::to_string(t.elems()) +
                                            " elements, not one " + dtype_name(dtype));
  return t.ints()[0];
}

tl::unexpected<Error> not_known(const NodeImport& n, size_t i, const char* what) {
  return fail(Code::kUnsupported,
              std::string(what) + " '" + std::string(n.proto().inputs[i]) + "' is not constant; --const can fix it");
}

class LoopImport {
 public:
  explicit LoopImport(NodeImport& n) : n_(n), carried_(n.input_count() - 2) {}
  Result<void> run();

 private:
  Result<bool> goes_on(const Binding& condition, int64_t done);
  Result<void> run_body(int64_t i);
  Result<void> finish_scan(size_t output);

  NodeImport& n_;
  size_t carried_;
  std::optional<int64_t> trips_;
  Binding condition_;
  std::vector<Binding> state_;
  std::vector<std::vector<Binding>> scanned_;  // by scan output, then run
};

Result<bool> LoopImport::goes_on(const Binding& condition, int64_t done) {
  if (trips_ && done >= *trips_) return false;
  LATHE_TRY(const auto known, n_.builder().known(condition));
  if (!known) {
    if (done == 0) return not_known(n_, 1, "the loop's condition");
    return fail(Code::kUnsupported, "the loop's condition depends on data after run " + std::to_string(done));
  }
  LATHE_TRY(const int64_t v, single(*known, DType::kBool, "the loop's condition"));
  return v != 0;
}

Result<void> LoopImport::run_body(int64_t i) {
  const std::string name = n_.name() + ":run" + std::to_string(i);
  std::vector<Binding> inputs{constant_binding(scalar(n_.builder().value_name(name), DType::kS64, i)), condition_};
  inputs.insert(inputs.end(), state_.begin(), state_.end());
  LATHE_TRY(const auto results, n_.import_body("body", inputs));
  if (results.size() < 1 + carried_)
    return fail(Code::kInvalidArgument, "the loop's body has " + std::to_string(results.size()) + " outputs, at least " +
                                            std::to_string(1 + carried_) + " are expected");
  condition_ = results[0];
  state_.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried_));
  scanned_.resize(results.size() - 1 - carried_);
  for (size_t s = 0; s < scanned_.size(); ++s) scanned_[s].push_back(results[1 + carried_ + s]);
  return {};
}

// What the runs gave, along a new first axis.
Result<void> LoopImport::finish_scan(size_t output) {
  if (!n_.has_output(carried_ + output)) return {};
  std::vector<ValueId> rows;
  for (Binding& b : scanned_[output]) {
    LATHE_TRY(const ValueId v, n_.builder().materialize(b));
    std::vector<Dim> dims = n_.type(v).dims;
    dims.insert(dims.begin(), n_.dims().constant(1));
    LATHE_TRY(rows.emplace_back(), reshaped(n_, "row", v, dims));
  }
  if (rows.size() > 1) return n_.finish(Op::kConcat, AxisAttrs{0}, rows, carried_ + output, "scan");
  n_.bind({rows[0], nullptr}, carried_ + output);
  return {};
}

Result<void> LoopImport::run() {
  if (n_.has_input(0)) {
    LATHE_TRY(const auto count, n_.known_tensor(0));
    if (!count) return not_known(n_, 0, "the number of runs");
    LATHE_TRY(trips_, single(*count, DType::kS64, "the number of runs"));
  }
  condition_ = n_.has_input(1) ? n_.binding(1) : constant_binding(scalar("condition", DType::kBool, 1));
  for (size_t i = 0; i < carried_; ++i) {
    if (!n_.has_input(2 + i)) return fail(Code::kInvalidArgument, "input " + std::to_string(2 + i) + " is missing");
    state_.push_back(n_.binding(2 + i));
    if (state_.back().blocked()) return fail(Code::kCancelled, "an operand was not imported");
  }
  int64_t done = 0;
  for (;; ++done) {
    LATHE_TRY(const bool more, goes_on(condition_, done));
    if (!more) break;
    if (done == kMaxRuns) return fail(Code::kUnsupported, "the loop runs more than " + std::to_string(kMaxRuns) + " times");
    LATHE_CHECK_OK(run_body(done));
  }
  if (done == 0) {
    n_.ignore("body");
    if (n_.proto().outputs.size() > carried_)
      return fail(Code::kUnsupported, "a loop that never runs gives empty tensors, which are not supported");
  }
  if (n_.proto().outputs.size() > carried_ + scanned_.size())
    return fail(Code::kInvalidArgument, "the node has more outputs than the loop's body");
  for (size_t i = 0; i < carried_ && i < n_.proto().outputs.size(); ++i) n_.bind(state_[i], i);
  for (size_t s = 0; carried_ + s < n_.proto().outputs.size(); ++s) LATHE_CHECK_OK(finish_scan(s));
  return {};
}

// What a branch gives for the outputs of its If.
Result<std::vector<Binding>> branch_results(NodeImport& n, const char* branch) {
  LATHE_TRY(auto results, n.import_body(branch, {}));
  if (results.size() != n.proto().outputs.size())
    return fail(Code::kInvalidArgument, std::string(branch) + " has " + std::to_string(results.size()) + " outputs, the node " +
                                            std::to_string(n.proto().outputs.size()));
  return results;
}

// The condition as a tensor of no dims, which combines with results of any rank.
Result<ValueId> scalar_condition(NodeImport& n) {
  LATHE_TRY(const ValueId c, n.value(0));
  const TensorType& type = n.type(c);
  const bool one = std::all_of(type.dims.begin(), type.dims.end(), [&](Dim d) { return n.dims().value(d) == 1; });
  if (type.dtype != DType::kBool || !one)
    return fail(Code::kInvalidArgument, std::string("the condition is ") + dtype_name(type.dtype) + " of rank " +
                                            std::to_string(type.dims.size()) + ", not one bool");
  if (type.dims.empty()) return c;
  return reshaped(n, "condition", c, std::vector<Dim>{});
}

// An If whose condition is known only when the model runs. No operator has effects besides its results, so both branches may run.
Result<void> import_open_if(NodeImport& n) {
  LATHE_TRY(const ValueId condition, scalar_condition(n));
  const auto taken = branch_results(n, "then_branch"), other = branch_results(n, "else_branch");
  if (!taken) return tl::unexpected(taken.error());
  if (!other) return tl::unexpected(other.error());
  for (size_t i = 0; i < taken->size(); ++i) {
    Binding a = (*taken)[i], b = (*other)[i];
    LATHE_TRY(const ValueId x, n.builder().materialize(a));
    LATHE_TRY(const ValueId y, n.builder().materialize(b));
    if (n.type(x).dtype != n.type(y).dtype)
      return fail(Code::kInvalidArgument, "its branches give different types for output " + std::to_string(i));
    if (n.type(x).dims != n.type(y).dims)
      return fail(Code::kUnsupported, "its branches give different shapes for output " + std::to_string(i) + " and the condition '" +
                                          std::string(n.proto().inputs[0]) + "' is not constant; --const can fix it");
    if (n.has_output(i)) LATHE_CHECK_OK(n.finish(Op::kWhere, NoAttrs{}, {condition, x, y}, i, i == 0 ? "" : std::to_string(i)));
  }
  return {};
}

}  // namespace

Result<void> import_if(NodeImport& n) {
  LATHE_TRY(const auto condition, n.known_tensor(0));
  if (!condition) return import_open_if(n);
  LATHE_TRY(const int64_t taken, single(*condition, DType::kBool, "the condition"));
  n.ignore(taken != 0 ? "else_branch" : "then_branch");
  LATHE_TRY(const auto results, branch_results(n, taken != 0 ? "then_branch" : "else_branch"));
  for (size_t i = 0; i < results.size(); ++i) n.bind(results[i], i);
  return {};
}

// Both of the first two inputs, the number of runs and the condition, may be left out, though not their places.
Result<void> import_loop(NodeImport& n) {
  if (n.input_count() < 2)
    return fail(Code::kInvalidArgument, "it has " + std::to_string(n.input_count()) + " inputs, 2 or more are expected");
  return LoopImport(n).run();
}

}  // namespace lathe::onnx
