#include "graph/import/tflite/model.h"

#include <algorithm>
#include <limits>

#include "lathe/shape.h"

namespace lathe::tflite {
namespace {

namespace fb = flatbuffers;

constexpr uint32_t kFormatVersion = 3;
// Subgraphs, operators and their options are four tables deep; real files have a few thousand tables.
constexpr uint32_t kMaxDepth = 16;
constexpr uint32_t kMaxTables = 1u << 20;
// A graph's names are copies: a long one in the file is cut.
constexpr size_t kMaxName = 512;

template <class T> std::span<const T> list(const fb::Vector<T>* v) {
  if (v == nullptr) return {};
  return {reinterpret_cast<const T*>(v->Data()), v->size()};
}
template <class V> uint32_t count(const V* v) { return v == nullptr ? 0 : v->size(); }

std::string_view text(const fb::String* s) {
  if (s == nullptr) return {};
  return std::string_view(s->data(), s->size()).substr(0, kMaxName);
}

tl::unexpected<Error> corrupt(const std::string& what) { return fail(Code::kCorrupt, what); }

// Bytes that `type` and `dims` say, for types of whole bytes.
Result<size_t> tensor_bytes(fbs::TensorType type, std::span<const int32_t> dims) {
  int64_t bytes = type_bytes(type);
  for (const int32_t d : dims)
    if (__builtin_mul_overflow(bytes, int64_t{d}, &bytes) || bytes > std::numeric_limits<int32_t>::max())
      return fail(Code::kUnsupported, "it has more than 2^31 - 1 bytes");
  return static_cast<size_t>(bytes);
}

Result<void> read_quantization(const fbs::Quantization* q, FileTensor& t) {
  if (q == nullptr) return {};
  t.scales = list(q->scale());
  t.zero_points = list(q->zero_point());
  t.axis = q->quantized_dimension();
  if (t.scales.empty()) t.zero_points = {};
  if (!t.zero_points.empty() && t.zero_points.size() != t.scales.size())
    return corrupt(std::to_string(t.scales.size()) + " scales and " + std::to_string(t.zero_points.size()) + " zero points");
  return {};
}

Result<void> read_data(const fbs::Model& model, uint32_t buffer, FileTensor& t) {
  if (buffer >= count(model.buffers()))
    return corrupt("buffer " + std::to_string(buffer) + ", the file has " + std::to_string(count(model.buffers())));
  const fbs::Buffer* b = model.buffers()->Get(buffer);
  if (b->size() > 1) return fail(Code::kUnsupported, "its data lies outside the model's tables, which is not supported");
  t.data = std::as_bytes(list(b->data()));
  if (type_bytes(t.type) == 0) return {};  // refused if it is read
  LATHE_TRY(const size_t bytes, tensor_bytes(t.type, t.dims));
  if (!t.data.empty() && bytes != t.data.size())
    return corrupt("it has " + std::to_string(t.data.size()) + " bytes, its type and dims say " + std::to_string(bytes));
  return {};
}

Result<FileTensor> read_tensor(const fbs::Model& model, const fbs::Tensor& tensor) {
  FileTensor t;
  t.name = text(tensor.name());
  t.type = tensor.type();
  t.dims = list(tensor.shape());
  t.signature = list(tensor.shape_signature());
  t.is_variable = tensor.is_variable();
  if (t.dims.size() > kMaxRank)
    return fail(Code::kUnsupported,
                "rank is " + std::to_string(t.dims.size()) + ", at most " + std::to_string(kMaxRank) + " are supported");
  for (const int32_t d : t.dims)
    if (d < 0) return corrupt("a dim is " + std::to_string(d));
  if (!t.signature.empty() && t.signature.size() != t.dims.size())
    return corrupt("its signature has rank " + std::to_string(t.signature.size()) + ", its shape " +
                   std::to_string(t.dims.size()));
  LATHE_CHECK_OK(read_quantization(tensor.quantization(), t));
  LATHE_CHECK_OK(read_data(model, tensor.buffer(), t));
  return t;
}

Result<void> check_indices(std::span<const int32_t> indices, size_t tensors, bool may_omit, const char* what) {
  for (const int32_t i : indices)
    if (i < (may_omit ? -1 : 0) || i >= static_cast<int64_t>(tensors))
      return corrupt(std::string(what) + " is tensor " + std::to_string(i) + ", there are " + std::to_string(tensors));
  return {};
}

Result<FileOperator> read_operator(const fbs::Model& model, const fbs::Operator& op, size_t tensors) {
  if (op.code() >= count(model.codes()))
    return corrupt("operator code " + std::to_string(op.code()) + ", the file has " + std::to_string(count(model.codes())));
  const fbs::OperatorCode& code = *model.codes()->Get(op.code());
  FileOperator out;
  out.code = std::max<int32_t>(code.old_builtin_code(), code.builtin_code());
  out.version = code.version();
  out.custom = text(code.custom_code());
  out.inputs = list(op.inputs());
  out.outputs = list(op.outputs());
  out.options = &op;
  LATHE_CHECK_OK(check_indices(out.inputs, tensors, true, "an input"));
  LATHE_CHECK_OK(check_indices(out.outputs, tensors, false, "an output"));
  return out;
}

Result<FileSubgraph> read_subgraph(const fbs::Model& model, const fbs::SubGraph& subgraph) {
  FileSubgraph g;
  for (uint32_t i = 0; i < count(subgraph.tensors()); ++i) {
    auto t = read_tensor(model, *subgraph.tensors()->Get(i));
    if (!t) return tl::unexpected(with_context(std::move(t.error()), "tensor " + std::to_string(i)));
    g.tensors.push_back(*t);
  }
  g.inputs = list(subgraph.inputs());
  g.outputs = list(subgraph.outputs());
  LATHE_CHECK_OK(check_indices(g.inputs, g.tensors.size(), false, "an input of the graph"));
  LATHE_CHECK_OK(check_indices(g.outputs, g.tensors.size(), false, "an output of the graph"));
  for (uint32_t i = 0; i < count(subgraph.operators()); ++i) {
    auto op = read_operator(model, *subgraph.operators()->Get(i), g.tensors.size());
    if (!op) return tl::unexpected(with_context(std::move(op.error()), "operator " + std::to_string(i)));
    g.operators.push_back(*op);
  }
  return g;
}

}  // namespace

bool FileTensor::is_constant() const { return !data.empty() || std::find(dims.begin(), dims.end(), 0) != dims.end(); }

uint32_t type_bytes(fbs::TensorType type) {
  switch (type) {
    case fbs::TensorType_INT8:
    case fbs::TensorType_UINT8:
    case fbs::TensorType_BOOL: return 1;
    case fbs::TensorType_FLOAT16:
    case fbs::TensorType_INT16:
    case fbs::TensorType_UINT16: return 2;
    case fbs::TensorType_FLOAT32:
    case fbs::TensorType_INT32:
    case fbs::TensorType_UINT32: return 4;
    case fbs::TensorType_INT64:
    case fbs::TensorType_UINT64:
    case fbs::TensorType_FLOAT64:
    case fbs::TensorType_COMPLEX64: return 8;
    case fbs::TensorType_COMPLEX128: return 16;
    default: return 0;
  }
}

std::string type_name(fbs::TensorType type) {
  const char* name = fbs::EnumNameTensorType(type);
  if (*name == '\0') return "type " + std::to_string(static_cast<int>(type));
  std::string lower;
  for (; *name != '\0'; ++name) lower += static_cast<char>(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
  return lower;
}

Result<FileModel> read_file_model(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 8 || !fbs::ModelBufferHasIdentifier(data))
    return corrupt("not a tflite model: the identifier TFL3 is missing");
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return fail(Code::kUnsupported, "the file has " + std::to_string(bytes.size()) + " bytes, at most 2^31 - 1 are supported");
  fb::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (!fbs::VerifyModelBuffer(verifier)) return corrupt("the file is damaged: its tables do not fit together");
  const fbs::Model& model = *fbs::GetModel(data);
  if (model.version() != kFormatVersion)
    return fail(Code::kUnsupported, "format version " + std::to_string(model.version()) + " is not supported, only " +
                                        std::to_string(kFormatVersion));
  if (count(model.subgraphs()) == 0) return corrupt("the model has no subgraph");
  FileModel out{.version = model.version(), .description = text(model.description()), .subgraphs = {}};
  for (uint32_t i = 0; i < count(model.subgraphs()); ++i) {
    auto g = read_subgraph(model, *model.subgraphs()->Get(i));
    if (!g) return tl::unexpected(with_context(std::move(g.error()), "subgraph " + std::to_string(i)));
    out.subgraphs.push_back(std::move(*g));
  }
  return out;
}

}  // namespace lathe::tflite
