// lathe run: one run on given inputs; prints the best classes or writes the outputs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/preprocess.h"
#include "tools/data_binding.h"
#include "tools/model.h"
#include "tools/runner.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, output, labels;
  std::vector<std::string> inputs;
  size_t top = 5;
  bool json = false;
  SessionFlags session;
  ImportFlags import;
};

// A picture as the model's stored preprocessing wants it.
Result<HostTensor> read_image_input(const std::string& path, const HostModel& model, const std::string& input) {
  const auto stored = model.metadata.find(kPreprocessingKey);
  if (stored == model.metadata.end())
    return fail(Code::kInvalidArgument, path +
                                            ": the model stores no preprocessing, so a picture cannot be turned into its input; "
                                            "give a .npy file, or quantize or calibrate it with a data set");
  LATHE_TRY(const auto all, parse_preprocessings(stored->second));
  const auto found = std::find_if(all.begin(), all.end(), [&](const NamedPreprocessing& p) { return p.name == input; });
  if (found == all.end() && all.size() != 1)
    return fail(Code::kInvalidArgument, "the model stores no preprocessing for input '" + input + "'");
  const Preprocessing& p = found == all.end() ? all[0].preprocessing : found->preprocessing;
  LATHE_TRY(const auto bytes, read_file(path));
  LATHE_TRY(Image image, decode_image(bytes, p.color == ColorOrder::kGray ? 1 : 3, path));
  if (p.height > 0 && p.width > 0) image = resize_bilinear(image, p.height, p.width);
  LATHE_TRY(const Preprocessor preprocessor,
            Preprocessor::make(p, {DType::kU8, RawAxes::kHwc, {image.height, image.width, image.channels}}));
  HostTensor tensor{preprocessor.dtype(), preprocessor.dims(), std::vector<std::byte>(preprocessor.bytes())};
  tensor.dims.insert(tensor.dims.begin(), 1);
  LATHE_CHECK_OK(preprocessor.apply(reinterpret_cast<const std::byte*>(image.pixels.data()), tensor.bytes.data()));
  return tensor;
}

// --input [name=]file: .npy, .npz (arrays by name) or a picture.
Result<std::vector<NamedTensor>> read_inputs(const Options& o, const HostModel& model, const std::vector<ModelInput>& wanted) {
  std::vector<NamedTensor> tensors;
  for (const std::string& text : o.inputs) {
    const size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    const std::string path = equals == std::string::npos ? text : text.substr(equals + 1);
    if (has_image_extension(path)) {
      LATHE_TRY(HostTensor tensor, read_image_input(path, model, name.empty() ? wanted[0].name : name));
      tensors.push_back({name, std::move(tensor)});
      continue;
    }
    LATHE_TRY(auto arrays, read_arrays(path));
    for (NamedTensor& a : arrays) tensors.push_back({name.empty() ? std::move(a.name) : name, std::move(a.tensor)});
  }
  return tensors;
}

Result<const HostTensor*> pick(const std::vector<NamedTensor>& tensors, const ModelInput& input, size_t count) {
  for (const NamedTensor& t : tensors)
    if (t.name == input.name) return &t.tensor;
  if (count == 1 && tensors.size() == 1) return &tensors[0].tensor;
  return fail(Code::kInvalidArgument, "no value for input '" + input.name + "'; give --input " + input.name + "=FILE");
}

// Dims with a missing batch of 1 put in front, where that makes the rank right.
Result<Shape> input_shape(const HostTensor& tensor, const ModelInput& input) {
  std::vector<int64_t> dims = tensor.dims;
  if (dims.size() + 1 == input.dims.size()) dims.insert(dims.begin(), 1);
  if (dims.size() != input.dims.size())
    return fail(Code::kInvalidArgument, "input '" + input.name + "': the model takes rank " + std::to_string(input.dims.size()) +
                                            ", the file has " + dims_text(tensor.dims));
  Shape shape;
  shape.rank = static_cast<uint32_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if ((input.dims[i] >= 0 && dims[i] != input.dims[i]) || dims[i] > INT32_MAX)
      return fail(Code::kInvalidArgument, "input '" + input.name + "': dim " + std::to_string(i) + " must be " +
                                              std::to_string(input.dims[i]) + ", the file has " + dims_text(tensor.dims));
    shape.dims[i] = static_cast<int32_t>(dims[i]);
  }
  return shape;
}

Result<void> load(Runner& runner, const std::vector<NamedTensor>& tensors, const std::vector<ModelInput>& inputs) {
  std::vector<HostTensor> ready;
  std::vector<Shape> shapes;
  for (const ModelInput& input : inputs) {
    LATHE_TRY(const HostTensor* found, pick(tensors, input, inputs.size()));
    HostTensor tensor = input.dtype == DType::kF32 ? to_f32(*found) : *found;
    if (tensor.dtype != input.dtype && !(input.quantized && tensor.dtype == DType::kF32))
      return fail(Code::kInvalidArgument, "input '" + input.name + "': the model takes " + dtype_name(input.dtype) +
                                              ", the file has " + dtype_name(tensor.dtype));
    LATHE_TRY(const Shape shape, input_shape(tensor, input));
    shapes.push_back(shape);
    ready.push_back(std::move(tensor));
  }
  LATHE_CHECK_OK(runner.bind(shapes));
  for (size_t i = 0; i < ready.size(); ++i) {
    const HostTensor& t = ready[i];
    if (t.dtype == DType::kF32) {
      runner.load_real(i, 0, {reinterpret_cast<const float*>(t.bytes.data()), t.bytes.size() / sizeof(float)});
    } else {
      std::memcpy(runner.input(i), t.bytes.data(), t.bytes.size());
    }
  }
  return {};
}

std::string output_name(const LoadedProgram& program, size_t i) {
  return i < program.output_names.size() ? program.output_names[i] : "output_" + std::to_string(i);
}

Result<void> write_outputs(Runner& runner, const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < runner.output_count(); ++i) {
    const Shape& s = runner.output_shape(i);
    HostTensor t{runner.output_tensor(i).dtype, {s.dims, s.dims + s.rank}, {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(runner.output(i));
    t.bytes.assign(bytes, bytes + static_cast<size_t>(s.elems()) * dtype_bytes(t.dtype));
    tensors.push_back({output_name(runner.program(), i), std::move(t)});
  }
  if (std::filesystem::path(path).extension() != ".npy") return write_npz(path, tensors);
  if (tensors.size() != 1)
    return fail(Code::kInvalidArgument,
                path + ": the model has " + std::to_string(tensors.size()) + " outputs, a .npy file holds one; use .npz");
  return write_npy(path, tensors[0].tensor);
}

Result<std::vector<std::string>> read_labels(const std::string& path) {
  std::vector<std::string> labels;
  if (path.empty()) return labels;
  LATHE_TRY(const std::string text, read_text_file(path));
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    labels.push_back(text.substr(begin, end - begin - (end > begin && text[end - 1] == '\r' ? 1 : 0)));
    begin = end + 1;
  }
  return labels;
}

// The largest values of each row of the last axis of output 0.
Result<void> print_top(Runner& runner, const Options& o) {
  LATHE_TRY(const std::vector<std::string> labels, read_labels(o.labels));
  std::vector<float> values;
  LATHE_CHECK_OK(runner.output_values(0, &values));
  const Shape& shape = runner.output_shape(0);
  const size_t row = shape.rank == 0 ? 1 : static_cast<size_t>(shape.dims[shape.rank - 1]);
  Tree rows = Tree::array();
  for (size_t r = 0; row > 0 && r < values.size() / row; ++r) {
    std::vector<size_t> order(row);
    std::iota(order.begin(), order.end(), 0);
    const size_t top = std::min(o.top, row);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                      [&](size_t a, size_t b) { return values[r * row + a] > values[r * row + b]; });
    Tree best = Tree::array();
    if (!o.json) std::printf("%s, row %zu:\n", output_name(runner.program(), 0).c_str(), r);
    for (size_t i = 0; i < top; ++i) {
      const std::string label = order[i] < labels.size() ? labels[order[i]] : std::to_string(order[i]);
      const auto value = static_cast<double>(values[r * row + order[i]]);
      best.push(Tree(Tree::table().set("index", order[i]).set("label", label).set("value", value)));
      if (!o.json) std::printf("  %-20s %.6g\n", label.c_str(), value);
    }
    rows.push(std::move(best));
  }
  if (o.json) std::printf("%s\n", to_json(Tree::table().set("top", std::move(rows))).c_str());
  return {};
}

Result<void> run(const Options& o) {
  if (!o.output.empty()) LATHE_CHECK_OK(check_writable(o.output));
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(const HostModel model, load_host_model(o.model, o.import));
  LATHE_TRY(Runner runner, Runner::create(model.program, session));
  const std::vector<ModelInput> inputs = model_inputs(*model.program);
  LATHE_TRY(const auto tensors, read_inputs(o, model, inputs));
  LATHE_CHECK_OK(load(runner, tensors, inputs));
  LATHE_CHECK_OK(runner.run());
  if (o.output.empty()) return print_top(runner, o);
  LATHE_CHECK_OK(write_outputs(runner, o.output));
  std::printf("wrote %s\n", o.output.c_str());
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file").required();
  args.option(
         "--input", o->inputs,
         "[name=]FILE: .npy, .npz (arrays by input name) or a picture (.png, .jpg, .bmp; uses the model's stored preprocessing)")
      .required();
  args.option("--output", o->output, ".npz or .npy file for all outputs; without it the best classes are printed");
  args.option("--top", o->top, "how many classes to print").show_default().positive();
  args.option("--labels", o->labels, "text file with one class name per line");
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_run{"run", "run a model once on given inputs", "lathe run int8.lathe --input x.npy --output y.npz", setup};

}  // namespace lathe::tools
