// Models of tflite_ops.npz with one thing changed, and why each is refused.
#include <cstring>

#include "tests/graph/import/expected_run.h"
#include "tests/graph/import/import_checks.h"
#include "tests/graph/import/tflite_writer.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// Operator `op` of the main graph, and the elements of its constant operand i.
fbs::OperatorT& op_of(fbs::ModelT& m, size_t op = 0) { return *m.subgraphs[0]->operators[op]; }
fbs::TensorT& tensor_of(fbs::ModelT& m, int32_t t) { return *m.subgraphs[0]->tensors[static_cast<size_t>(t)]; }
fbs::TensorT& operand(fbs::ModelT& m, size_t i) { return tensor_of(m, op_of(m).inputs[i]); }
template <class T> void set_element(fbs::ModelT& m, size_t i, size_t at, T value) {
  std::memcpy(&m.buffers[operand(m, i).buffer]->data[at * sizeof(T)], &value, sizeof value);
}

// Each layer is unrolled: a few of them must not make a graph of any size.
void repeat_long_layer(fbs::ModelT& m) {
  auto& graph = *m.subgraphs[0];
  operand(m, 0).shape = {2, 1024, 5};
  for (int i = 0; i < 5; ++i) {
    graph.operators.push_back(std::make_unique<fbs::OperatorT>(op_of(m)));
    graph.operators.back()->outputs = {static_cast<int32_t>(graph.tensors.size())};
    graph.tensors.push_back(std::make_unique<fbs::TensorT>());
    graph.tensors.back()->shape = {2, 1024, 4};
  }
}

struct Refusal {
  const char* model;
  void (*change)(fbs::ModelT& m);
  const char* reason;
};

const Refusal kRefusals[] = {
    {"mirror_pad_symmetric", [](fbs::ModelT& m) { set_element<int32_t>(m, 1, 0, 9); }, "pads of 9 and 2 on a dim of 2"},
    {"one_hot_0", [](fbs::ModelT& m) { set_element<int32_t>(m, 1, 0, 0); }, "the depth is 0"},
    {"top_k", [](fbs::ModelT& m) { set_element<int32_t>(m, 1, 0, 0); }, "k is 0"},
    {"top_k", [](fbs::ModelT& m) { set_element<int32_t>(m, 1, 0, 10); }, "k is 10, the axis has 9 elements"},
    {"range_f32", [](fbs::ModelT& m) { set_element<float>(m, 2, 0, 0.0f); }, "a range from 1.0"},
    {"gather_batch", [](fbs::ModelT& m) { op_of(m).options.AsGather()->axis = 2; }, "1 batch dims with axis 2"},
    {"dynamic_update_slice_1", [](fbs::ModelT& m) { operand(m, 1).shape = {1, 2, 3}; }, "smaller along several axes"},
    {"dynamic_update_slice_1", [](fbs::ModelT& m) { operand(m, 1).shape = {2, 7, 3}; }, "an update of 7 in a dim of 6"},
    {"local_response_normalization", [](fbs::ModelT& m) { op_of(m).options.AsLrn()->radius = 100000; }, "radius 100000"},
    {"l2_pool", [](fbs::ModelT& m) { op_of(m).options.AsPool()->stride_h = 0; }, "stride 0"},
    {"svdf", [](fbs::ModelT& m) { op_of(m).options.AsSvdf()->rank = 0; }, "rank 0"},
    {"svdf", [](fbs::ModelT& m) { operand(m, 4).shape = {2, 17}; }, "the state does not have 2 x 18 elements"},
    {"svdf", [](fbs::ModelT& m) { operand(m, 4).is_variable = false; }, "is read before anything makes it"},
    {"svdf_s8", [](fbs::ModelT& m) { operand(m, 4).quantization = nullptr; }, "an integer bias without scales per tensor"},
    {"rnn_0", [](fbs::ModelT& m) { op_of(m).options.AsRnn()->activation = fbs::Activation_RELU6; }, "activation 3"},
    {"lstm_again", [](fbs::ModelT& m) { op_of(m).options.AsSequenceLstm()->diagonal = true; }, "diagonal"},
    {"lstm_again", [](fbs::ModelT& m) { op_of(m).options.AsSequenceLstm()->activation = fbs::Activation_SIGN_BIT; },
     "fused activation 5"},
    {"lstm_again", [](fbs::ModelT& m) { operand(m, 19).shape = {2, 5}; }, "different dims"},
    {"lstm_again", [](fbs::ModelT& m) { op_of(m).inputs[18] = -1; }, "no state"},
    {"lstm_again", [](fbs::ModelT& m) { operand(m, 0).shape = {2, 1025, 5}; }, "1025 steps, at most 1024 are supported"},
    {"lstm_again", repeat_long_layer, "take more memory than a file of this size may ask for"},
    {"lstm_one_step", [](fbs::ModelT& m) { op_of(m).options.AsLstm()->kernel = 1; }, "the basic form of LSTM"},
    {"lstm_peepholes", [](fbs::ModelT& m) { op_of(m).inputs[9] = op_of(m).inputs[1]; }, "peephole0 does not have 4 elements"},
    {"lstm_norm",
     [](fbs::ModelT& m) {
       auto& out = tensor_of(m, op_of(m).outputs[0]);
       out.type = fbs::TensorType_INT8;
       out.quantization = std::make_unique<fbs::QuantizationT>();
       out.quantization->scale = {0.1f};
     },
     "layer normalization of integers"},
    {"variables", [](fbs::ModelT& m) { op_of(m).options.AsCallOnce()->subgraph = 2; }, "it calls no subgraph"},
    {"variables", [](fbs::ModelT& m) { op_of(m).options.AsCallOnce()->subgraph = 0; }, "it calls no subgraph"},
    {"variables", [](fbs::ModelT& m) { m.subgraphs[0]->operators.erase(m.subgraphs[0]->operators.begin()); },
     "variable '/total' has no initial value"},
    {"variables", [](fbs::ModelT& m) { m.subgraphs[1]->operators[1]->code = op_of(m, 3).code; },
     "a subgraph that does more than to assign constants"},
    {"variables", [](fbs::ModelT& m) { m.subgraphs[1]->tensors[1]->buffer = 0; }, "an initial value that is computed"},
    {"variables", [](fbs::ModelT& m) { op_of(m, 4).inputs[0] = op_of(m, 4).inputs[1]; }, "no handle of a variable"},
};

std::string packed(fbs::ModelT& m) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fbs::Model::Pack(builder, &m), fbs::ModelIdentifier());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<Graph> import_bytes(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return import_tflite(owner, std::as_bytes(std::span<const char>(*owner)), {}, nullptr);
}

}  // namespace

TEST_CASE("tflite operators whose operands or options do not fit are refused with a reason") {
  const auto arrays = expected_arrays("tflite_ops");
  for (const Refusal& r : kRefusals) {
    CAPTURE(r.model);
    CAPTURE(r.reason);
    const auto model = fbs::UnPackModel(array(arrays, r.model + std::string(":model")).bytes.data());
    CHECK(import_bytes(packed(*model)).has_value());  // as it is
    r.change(*model);
    const auto refused = import_bytes(packed(*model));
    REQUIRE(!refused.has_value());
    CAPTURE(refused.error().message);
    CHECK(refused.error().message.find(r.reason) != std::string::npos);
  }
}
