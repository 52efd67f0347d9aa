// TFLite files for tests, written with the builders that flatc makes of schema.fbs.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "graph/import/tflite/import_tflite.h"
#include "tests/graph/import/schema_generated.h"

namespace lathe::test {

namespace fbs = tflite::fbs;

// Operator numbers of the format.
enum : int32_t {
  kTflAdd = 0,
  kTflConv = 3,
  kTflDepthwise = 4,
  kTflFullyConnected = 9,
  kTflMul = 18,
  kTflReshape = 22,
  kTflTanh = 28,
  kTflCustom = 32
};

template <class T> fbs::OptionsUnion options_of(fbs::Options type, const T& options) {
  fbs::OptionsUnion u;
  u.type = type;
  u.value = new T(options);
  return u;
}

class TfliteModel {
 public:
  struct Tensor {
    std::string name = {};
    fbs::TensorType type = fbs::TensorType_FLOAT32;
    std::vector<int32_t> dims = {};
    std::vector<uint8_t> data = {};  // empty: computed
    std::vector<float> scales = {};
    std::vector<int64_t> zero_points = {};
    int32_t axis = 0;
    std::vector<int32_t> signature = {};
    bool is_variable = false;
    int32_t buffer = -1;  // an index of its own choice
  };
  struct Operator {
    int32_t code;
    std::vector<int32_t> inputs, outputs;
    fbs::OptionsUnion options;
    std::string custom;
  };

  int32_t add(Tensor t) {
    tensors.push_back(std::move(t));
    return static_cast<int32_t>(tensors.size()) - 1;
  }
  template <class T> static std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
    std::vector<uint8_t> out(values.size() * sizeof(T));
    std::memcpy(out.data(), values.data(), out.size());
    return out;
  }

  std::vector<Tensor> tensors;
  std::vector<int32_t> inputs, outputs;
  std::vector<Operator> operators;
  uint32_t version = 3;
  int32_t missing_code = 0;  // added to every operator's index of codes

  std::string bytes() const;
  Result<Graph> import(ImportOptions options = {}, ImportReport* report = nullptr, bool passes = false) const {
    options.run_passes = passes;
    // Exactly as large as the file, so that the sanitizer sees a read past its end.
    const auto owner = std::make_shared<std::string>(bytes());
    return import_tflite(owner, std::as_bytes(std::span<const char>(*owner)), options, report);
  }
};

inline std::string TfliteModel::bytes() const {
  fbs::ModelT model;
  model.version = version;
  model.buffers.push_back(std::make_unique<fbs::BufferT>());
  auto graph = std::make_unique<fbs::SubGraphT>();
  for (const Tensor& t : tensors) {
    auto tensor = std::make_unique<fbs::TensorT>();
    tensor->name = t.name;
    tensor->type = t.type;
    tensor->shape = t.dims;
    tensor->shape_signature = t.signature;
    tensor->is_variable = t.is_variable;
    if (!t.data.empty()) {
      tensor->buffer = static_cast<uint32_t>(model.buffers.size());
      model.buffers.push_back(std::make_unique<fbs::BufferT>());
      model.buffers.back()->data = t.data;
    }
    if (t.buffer >= 0) tensor->buffer = static_cast<uint32_t>(t.buffer);
    if (!t.scales.empty()) {
      tensor->quantization = std::make_unique<fbs::QuantizationT>();
      tensor->quantization->scale = t.scales;
      tensor->quantization->zero_point = t.zero_points;
      tensor->quantization->quantized_dimension = t.axis;
    }
    graph->tensors.push_back(std::move(tensor));
  }
  for (const Operator& o : operators) {
    auto code = std::make_unique<fbs::OperatorCodeT>();
    code->builtin_code = o.code;
    code->custom_code = o.custom;
    auto op = std::make_unique<fbs::OperatorT>();
    op->code = static_cast<uint32_t>(model.codes.size()) + static_cast<uint32_t>(missing_code);
    op->inputs = o.inputs;
    op->outputs = o.outputs;
    op->options = o.options;
    model.codes.push_back(std::move(code));
    graph->operators.push_back(std::move(op));
  }
  graph->inputs = inputs;
  graph->outputs = outputs;
  model.subgraphs.push_back(std::move(graph));
  flatbuffers::FlatBufferBuilder builder;
  fbs::FinishModelBuffer(builder, fbs::Model::Pack(builder, &model));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace lathe::test
