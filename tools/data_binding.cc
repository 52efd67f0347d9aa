#include "tools/data_binding.h"

#include <algorithm>
#include <cstring>

#include "base/cancel.h"
#include "base/progress.h"
#include "runtime/host/ports.h"

namespace lathe::tools {
namespace {

constexpr uint32_t kDefaultBatch = 16;

std::string sample_text(const std::vector<int64_t>& dims) {
  std::string s;
  for (const int64_t d : dims) s += (s.empty() ? "" : "x") + (d < 0 ? std::string("?") : std::to_string(d));
  return s.empty() ? "scalar" : s;
}

// A sample fits if its dims are the model's behind the batch, or all of them where the model's batch is 1.
bool dims_fit(const std::vector<int64_t>& model, const std::vector<int64_t>& sample) {
  const auto same = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](int64_t m, int64_t s) { return m < 0 || m == s; });
  };
  if (model.empty()) return sample.empty();
  return same(std::span(model).subspan(1), std::span(sample)) || (model[0] == 1 && same(std::span(model), std::span(sample)));
}

Result<size_t> find_input(const ModelInput& input, size_t model_count, const Dataset& data) {
  const auto& inputs = data.inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == input.name) return i;
  if (model_count == 1 && inputs.size() == 1) return size_t{0};
  std::string names;
  for (const DataInput& i : inputs) names += (names.empty() ? "'" : ", '") + i.name + "'";
  return fail(Code::kInvalidArgument, "the data set has no input '" + input.name + "' (it has " + names + ")");
}

Result<void> check_fit(const ModelInput& model, const DataInput& data) {
  if (model.dtype != data.dtype && !(model.quantized && data.dtype == DType::kF32))
    return fail(Code::kInvalidArgument, "input '" + model.name + "': the model takes " + dtype_name(model.dtype) +
                                            ", the data set gives " + dtype_name(data.dtype));
  if (dims_fit(model.dims, data.dims)) return {};
  const std::vector<int64_t> sample(model.dims.empty() ? model.dims.begin() : model.dims.begin() + 1, model.dims.end());
  return fail(Code::kInvalidArgument, "input '" + model.name + "': the model takes " + sample_text(sample) +
                                          " per sample, the data set gives " + sample_text(data.dims));
}

}  // namespace

std::vector<ModelInput> model_inputs(const LoadedProgram& program) {
  std::vector<ModelInput> inputs;
  for (const uint32_t t : port_tensors(program.program, TensorKind::kInput)) {
    const ProgramTensor& tensor = program.program.tensor(t);
    ModelInput& input = inputs.emplace_back();
    if (tensor.port < program.input_names.size()) input.name = program.input_names[tensor.port];
    input.dtype = tensor.dtype;
    input.quantized = tensor.dtype == DType::kS8 && (tensor.flags & kTensorHasQuant) != 0;
    for (uint32_t i = 0; i < tensor.rank; ++i) {
      const ProgramDim& d = program.program.dim(tensor.dims[i]);
      input.dims.push_back(d.op == DimOp::kConst ? d.a : -1);
    }
  }
  return inputs;
}

Result<std::vector<size_t>> match_inputs(const std::vector<ModelInput>& model, const std::map<std::string, std::string>& metadata,
                                         const Dataset& data) {
  const auto stored = metadata.find(kPreprocessingKey);
  LATHE_CHECK_OK(check_preprocessing(stored == metadata.end() ? std::string_view() : std::string_view(stored->second),
                                     data.preprocessing()));
  std::vector<size_t> matching;
  for (const ModelInput& input : model) {
    LATHE_TRY(const size_t i, find_input(input, model.size(), data));
    LATHE_CHECK_OK(check_fit(input, data.inputs()[i]));
    matching.push_back(i);
  }
  return matching;
}

namespace {

// Sample `index` as element `b` of the batch in input k: straight into the runner's buffer, or quantized on the way.
Result<void> fill(Runner& runner, size_t k, const DataInput& input, const DataSplit& split, size_t data_input, uint64_t index,
                  uint32_t b) {
  if (runner.input_tensor(k).dtype == input.dtype) return split.fill(data_input, index, runner.input(k) + b * input.bytes);
  std::vector<float> sample(input.bytes / sizeof(float));
  LATHE_CHECK_OK(split.fill(data_input, index, reinterpret_cast<uint8_t*>(sample.data())));
  runner.load_real(k, b * sample.size(), sample);
  return {};
}

}  // namespace

Result<uint64_t> predict(Runner& runner, const Dataset& data, const DataSplit& split, const std::vector<size_t>& matching,
                         const PredictOptions& options, const OutputSink& sink) {
  const uint64_t count = options.limit == 0 ? split.size() : std::min<uint64_t>(options.limit, split.size());
  const uint32_t wanted = options.batch != 0 ? options.batch : (runner.batch_is_open() ? kDefaultBatch : 1);
  std::vector<std::vector<int64_t>> sample_dims;
  for (const size_t i : matching) sample_dims.push_back(data.inputs()[i].dims);
  Progress progress(options.progress, options.progress.empty() ? 0 : count);
  std::vector<std::vector<float>> values(runner.output_count());
  for (uint64_t first = 0; first < count;) {
    LATHE_CHECK_OK(check_cancelled());
    const auto batch = static_cast<uint32_t>(std::min<uint64_t>(wanted, count - first));
    LATHE_TRY(const auto shapes, runner.shapes_for(batch, sample_dims));
    if (first == 0 || batch != wanted) LATHE_CHECK_OK(runner.bind(shapes));
    for (size_t k = 0; k < matching.size(); ++k)
      for (uint32_t b = 0; b < batch; ++b)
        LATHE_CHECK_OK(fill(runner, k, data.inputs()[matching[k]], split, matching[k], first + b, b));
    LATHE_CHECK_OK(runner.run());
    for (size_t o = 0; o < values.size(); ++o) LATHE_CHECK_OK(runner.output_values(o, &values[o]));
    for (uint32_t b = 0; b < batch; ++b) {
      std::vector<std::span<const float>> outputs;
      for (const auto& v : values) outputs.push_back(std::span<const float>(v).subspan(b * (v.size() / batch), v.size() / batch));
      LATHE_CHECK_OK(sink(first + b, outputs));
    }
    first += batch;
    if (!options.progress.empty()) progress.update(first);
  }
  return count;
}

}  // namespace lathe::tools
