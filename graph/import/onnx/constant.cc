// Constants, and tensors made from dims.
#include <algorithm>
#include <cstring>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// What a node makes from dims alone, as a constant: more would let a file of a few bytes take all memory.
constexpr size_t kMaxMadeBytes = size_t{64} << 10;

// A constant that the node makes is named after its result.
Result<void> bind_made(NodeImport& n, ConstTensor t) {
  t.name = std::string(n.proto().outputs[0]);
  return n.bind_constant(std::move(t));
}

template <class T> ConstTensor list_tensor(DType dtype, const std::vector<T>& values, bool is_scalar) {
  std::vector<int64_t> dims;
  if (!is_scalar) dims.push_back(static_cast<int64_t>(values.size()));
  return {{}, dtype, std::move(dims), Constant::of(values)};
}

// A tensor of `dims` full of `t`'s one element.
Result<ConstTensor> filled(const ConstTensor& t, const std::vector<int64_t>& dims) {
  LATHE_TRY(const size_t bytes, checked_bytes(dims, dtype_bytes(t.dtype)));
  std::vector<std::byte> out(bytes);
  const size_t size = dtype_bytes(t.dtype);
  for (size_t at = 0; at < bytes; at += size) std::memcpy(&out[at], t.bytes.bytes.data(), size);
  return ConstTensor{{}, t.dtype, dims, Constant::copy(out)};
}

// NumPy's broadcast of known dims.
Result<std::vector<int64_t>> broadcast_dims(std::vector<int64_t> a, std::vector<int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1)
      return fail(Code::kInvalidArgument, "dims " + dims_text(a) + " do not broadcast to " + dims_text(b));
    a[i] = a[i] == 1 ? b[i] : a[i];
  }
  return a;
}

}  // namespace

Result<void> import_constant(NodeImport& n) {
  if (const Attribute* a = n.take("value"); a != nullptr && a->type == AttributeType::kTensor && a->t) {
    LATHE_TRY(ConstTensor t, n.builder().reader.read(*a->t));
    return bind_made(n, std::move(t));
  }
  if (n.has("value_float")) {
    LATHE_TRY(const float v, n.real("value_float", 0));
    return bind_made(n, list_tensor<float>(DType::kF32, {v}, true));
  }
  if (n.has("value_int")) {
    LATHE_TRY(const int64_t v, n.integer("value_int", 0));
    return bind_made(n, list_tensor<int64_t>(DType::kS64, {v}, true));
  }
  if (n.has("value_ints")) {
    LATHE_TRY(const auto v, n.integers("value_ints"));
    return bind_made(n, list_tensor(DType::kS64, *v, false));
  }
  if (const Attribute* a = n.take("value_floats"); a != nullptr && a->type == AttributeType::kFloats)
    return bind_made(n, list_tensor(DType::kF32, a->floats, false));
  for (const char* name : {"value_string", "value_strings", "sparse_value"})
    if (n.has(name)) return fail(Code::kUnsupported, std::string("attribute '") + name + "' is not supported");
  return fail(Code::kInvalidArgument, "the value is missing");
}

namespace {

// A tensor full of one element: a constant while it is small, so that who needs to know it can.
Result<bool> bind_small(NodeImport& n, const ConstTensor& element, const std::vector<int64_t>& dims) {
  LATHE_TRY(const size_t bytes, checked_bytes(dims, dtype_bytes(element.dtype)));
  if (bytes > kMaxMadeBytes) return false;
  LATHE_TRY(ConstTensor t, filled(element, dims));
  LATHE_CHECK_OK(bind_made(n, std::move(t)));
  return true;
}

// x in the dims of operand i, which may be known, expressions, or data.
Result<void> finish_expanded(NodeImport& n, ValueId x, size_t i) {
  LATHE_TRY(const ValueId given, n.value(i));
  LATHE_TRY(const ValueId target, extents(n, given, "dims"));
  return n.finish(Op::kExpand, NoAttrs{}, {x, target});
}

}  // namespace

Result<void> import_constant_of_shape(NodeImport& n) {
  ConstTensor value = list_tensor<float>(DType::kF32, {0.0f}, true);
  if (const Attribute* a = n.take("value")) {
    if (a->type != AttributeType::kTensor || !a->t) return fail(Code::kInvalidArgument, "attribute 'value' is not a tensor");
    LATHE_TRY(value, n.builder().reader.read(*a->t));
    if (value.elems() != 1)
      return fail(Code::kInvalidArgument, "attribute 'value' has " + std::to_string(value.elems()) + " elements, not 1");
  }
  const auto dims = n.known_integers(0, "the dims");
  if (!dims && dims.error().code != Code::kUnsupported) return tl::unexpected<Error>(dims.error());
  if (dims) {
    LATHE_TRY(const bool done, bind_small(n, value, *dims));
    if (done) return {};
  }
  value.dims.clear();
  value.name = n.builder().value_name(n.name() + ":value");
  LATHE_TRY(const ValueId x, n.builder().constant(value));
  return finish_expanded(n, x, 0);
}

Result<void> import_expand(NodeImport& n) {
  const auto target = n.known_integers(1, "the target dims");
  if (!target && target.error().code != Code::kUnsupported) return tl::unexpected<Error>(target.error());
  LATHE_TRY(const auto data, n.constant(0));
  if (data && target && data->elems() == 1) {
    LATHE_TRY(const auto dims, broadcast_dims(data->dims, *target));
    LATHE_TRY(const bool done, bind_small(n, *data, dims));
    if (done) return {};
  }
  LATHE_TRY(const ValueId x, n.value(0));
  std::vector<int64_t> dims;
  for (size_t i = 0; i < n.rank(x); ++i) dims.push_back(n.dim(x, i).value_or(-1));
  const bool same = target && target->size() <= dims.size() &&
                    std::equal(target->begin(), target->end(), dims.end() - static_cast<ptrdiff_t>(target->size()),
                               [](int64_t t, int64_t d) { return t == 1 || t == d; });
  if (!same) return finish_expanded(n, x, 1);
  n.bind(n.binding(0));
  return {};
}

}  // namespace lathe::onnx
