#include "tools/teacher.h"

#include <cstring>

#include "graph/grad/training_form.h"
#include "graph/lineage.h"
#include "graph/lower/load.h"
#include "graph/rewriter.h"
#include "tools/calibration.h"
#include "tools/runner.h"

namespace lathe::tools {
namespace {

// The teacher as far as its logits.
Result<Graph> without_softmax(Graph graph) {
  if (graph.outputs().empty()) return fail(Code::kInvalidArgument, "the network has no output");
  const ValueId output = graph.outputs()[0], logits = logits_of(graph, output);
  if (logits == output) return graph;
  Rewriter rewriter(graph);
  rewriter.replace(output, logits);
  rewriter.sweep();
  LATHE_CHECK_OK(rewriter.ok());
  return graph;
}

Result<uint32_t> values_per_sample(const Graph& graph) {
  const TensorType& type = graph.value(graph.outputs()[0]).type;
  int64_t n = type.dtype == DType::kF32 && !type.dims.empty() ? 1 : 0;
  for (size_t i = 1; i < type.dims.size(); ++i) n *= graph.dims().value(type.dims[i]).value_or(0);
  if (n < 1 || n > 0x7fffffff)
    return fail(Code::kInvalidArgument, "its first output gives " + print_type(graph.dims(), type) + ", which are no logits");
  return static_cast<uint32_t>(n);
}

Result<void> check_root(const TeacherRequest& request, const Graph& student) {
  const std::string root = lineage_root(student), own = to_hex(content_hash(*request.graph));
  if (root == own) return {};
  return fail(Code::kInvalidArgument, "teacher '" + request.name +
                                          "' is not the model that the student comes from: its content is " + own +
                                          ", the student's root is " + root);
}

}  // namespace

struct Teacher::State {
  State(Runner runner, train::TeacherCache cache, std::vector<size_t> matching, uint32_t outputs)
      : runner(std::move(runner)), cache(std::move(cache)), matching(std::move(matching)), outputs(outputs) {}

  Runner runner;
  train::TeacherCache cache;
  std::vector<size_t> matching;                   // by the teacher's input: the data set's
  std::vector<std::vector<int64_t>> sample_dims;  // by the teacher's input
  uint32_t outputs;
  uint32_t bound = 0;  // rows

  Result<void> compute(const Batch& batch, std::span<const uint32_t> rows, std::span<float> values) {
    const auto count = static_cast<uint32_t>(rows.size());
    if (bound != count) {
      LATHE_TRY(const std::vector<Shape> shapes, runner.shapes_for(count, sample_dims));
      LATHE_CHECK_OK(runner.bind(shapes));
      bound = count;
    }
    for (size_t i = 0; i < matching.size(); ++i) {
      const std::vector<uint8_t>& from = batch.inputs[matching[i]];
      const size_t bytes = from.size() / batch.rows();
      for (size_t r = 0; r < rows.size(); ++r) std::memcpy(runner.input(i) + r * bytes, from.data() + rows[r] * bytes, bytes);
    }
    LATHE_CHECK_OK(runner.run());
    std::vector<float> result;
    LATHE_CHECK_OK(runner.output_values(0, &result));
    std::copy(result.begin(), result.end(), values.begin());
    return {};
  }
};

Teacher::Teacher(std::unique_ptr<State> state) : state_(std::move(state)) {}
Teacher::Teacher(Teacher&&) noexcept = default;
Teacher::~Teacher() = default;

Result<Teacher> Teacher::open(const TeacherRequest& request, const Graph& student, const Dataset& data, const Batches& batches,
                              const SessionOptions& session) {
  LATHE_CHECK_OK(check_root(request, student));
  const auto about = [&](Error error) {
    return tl::unexpected(with_context(std::move(error), "teacher '" + request.name + "'"));
  };
  auto graph = without_softmax(*request.graph);
  if (!graph) return about(std::move(graph.error()));
  const auto outputs = values_per_sample(*graph);
  if (!outputs) return about(outputs.error());
  auto matching = match_inputs(graph_inputs(*graph), graph->metadata, data);
  if (!matching) return about(std::move(matching.error()));
  LATHE_TRY(auto program, compile_for_host(*graph));
  LATHE_TRY(Runner runner, Runner::create(std::move(program), session));
  const train::TeacherCacheOptions options{.folder = request.cache_folder,
                                           .teacher = content_hash(*request.graph),
                                           .preprocessing = preprocessing_hash(data.preprocessing()),
                                           .outputs = *outputs};
  LATHE_TRY(train::TeacherCache cache, train::TeacherCache::open(options, batches));
  auto state = std::make_unique<State>(std::move(runner), std::move(cache), std::move(*matching), *outputs);
  for (const size_t i : state->matching) state->sample_dims.push_back(data.inputs()[i].dims);
  return Teacher(std::move(state));
}

Result<void> Teacher::logits(const Batch& batch, std::vector<float>* logits) {
  const auto compute = [&](std::span<const uint32_t> rows, std::span<float> values) {
    return state_->compute(batch, rows, values);
  };
  return state_->cache.outputs(batch, compute, logits);
}

Result<void> Teacher::flush() { return state_->cache.flush(); }
const train::TeacherCacheStats& Teacher::stats() const { return state_->cache.stats(); }

}  // namespace lathe::tools
