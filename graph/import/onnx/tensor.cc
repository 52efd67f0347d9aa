#include "graph/import/onnx/tensor.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <system_error>

#include "lathe/float16.h"
#include "runtime/host/mapped_file.h"

namespace lathe::onnx {
namespace {

// raw_data and packed lists are little-endian, and are used in place.
static_assert(std::endian::native == std::endian::little);

std::string tensor_label(std::string_view name) { return "tensor '" + std::string(name) + "'"; }

// How the elements of an ONNX type become ours.
struct Conversion {
  ElemType from;
  DType to;
  uint32_t bytes;  // per element in raw_data
  const char* name;
};
constexpr Conversion kConversions[] = {
    {ElemType::kFloat, DType::kF32, 4, "float32"},   {ElemType::kUint8, DType::kU8, 1, "uint8"},
    {ElemType::kInt8, DType::kS8, 1, "int8"},        {ElemType::kUint16, DType::kU16, 2, "uint16"},
    {ElemType::kInt16, DType::kS16, 2, "int16"},     {ElemType::kInt32, DType::kS32, 4, "int32"},
    {ElemType::kInt64, DType::kS64, 8, "int64"},     {ElemType::kBool, DType::kBool, 1, "bool"},
    {ElemType::kFloat16, DType::kF32, 2, "float16"}, {ElemType::kDouble, DType::kF32, 8, "float64"},
    {ElemType::kBfloat16, DType::kF32, 2, "bfloat16"}, {ElemType::kUint32, DType::kU32, 4, "uint32"},
    {ElemType::kUint64, DType::kU64, 8, "uint64"},
};
const Conversion* find_conversion(int32_t elem_type) {
  for (const Conversion& c : kConversions)
    if (static_cast<int32_t>(c.from) == elem_type) return &c;
  return nullptr;
}

template <class T> T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float element_to_float(ElemType from, const std::byte* p) {
  switch (from) {
    case ElemType::kFloat16: return half_to_float(load<uint16_t>(p));
    case ElemType::kBfloat16: return bfloat_to_float(load<uint16_t>(p));
    case ElemType::kDouble: return static_cast<float>(load<double>(p));
    default: return load<float>(p);
  }
}

Constant convert_raw(const Conversion& c, std::span<const std::byte> raw) {
  std::vector<float> out(raw.size() / c.bytes);
  for (size_t i = 0; i < out.size(); ++i) out[i] = element_to_float(c.from, raw.data() + i * c.bytes);
  return Constant::of(out);
}

template <class To, class From> Constant narrowed(const std::vector<From>& list) {
  std::vector<To> out(list.size());
  for (size_t i = 0; i < list.size(); ++i) out[i] = static_cast<To>(list[i]);
  return Constant::copy(std::as_bytes(std::span<const To>(out)));
}

// The typed list that an element type is stored in, as our bytes. int32_data carries every type of up to 32 bits, halves as their
// bit patterns.
Constant convert_list(const Conversion& c, const TensorProto& t, size_t* count) {
  const auto from_int32 = [&](auto zero) {
    *count = t.int32_data.size();
    return narrowed<decltype(zero)>(t.int32_data);
  };
  switch (c.from) {
    case ElemType::kFloat: *count = t.float_data.size(); return Constant::of(t.float_data);
    case ElemType::kDouble: *count = t.double_data.size(); return narrowed<float>(t.double_data);
    case ElemType::kInt64: *count = t.int64_data.size(); return Constant::of(t.int64_data);
    case ElemType::kUint64: *count = t.uint64_data.size(); return Constant::of(t.uint64_data);
    case ElemType::kUint32: *count = t.uint64_data.size(); return narrowed<uint32_t>(t.uint64_data);
    case ElemType::kUint8: case ElemType::kBool: return from_int32(uint8_t{});
    case ElemType::kInt8: return from_int32(int8_t{});
    case ElemType::kUint16: return from_int32(uint16_t{});
    case ElemType::kInt16: return from_int32(int16_t{});
    case ElemType::kFloat16: case ElemType::kBfloat16: return convert_raw(c, from_int32(uint16_t{}).bytes);
    default: return from_int32(int32_t{});
  }
}

Result<uint64_t> external_number(const TensorProto& t, std::string_view key, uint64_t absent) {
  const auto it = t.external.find(key);
  if (it == t.external.end()) return absent;
  const std::string_view s = it->second;
  uint64_t v = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  if (r.ec != std::errc{} || r.ptr != s.data() + s.size())
    return fail(Code::kCorrupt, tensor_label(t.name) + ": external data has " + std::string(key) + " '" + std::string(s) +
                                    "', which is not a number");
  return v;
}

// Whether `path`, with links resolved, lies in `folder`.
bool is_inside(const std::filesystem::path& folder, const std::filesystem::path& path) {
  std::error_code error;
  const auto base = std::filesystem::weakly_canonical(folder, error);
  if (error) return false;
  const auto full = std::filesystem::weakly_canonical(path, error);
  if (error) return false;
  const auto [end, unused] = std::mismatch(base.begin(), base.end(), full.begin(), full.end());
  return end == base.end();
}

}  // namespace

std::vector<int64_t> ConstTensor::ints() const {
  std::vector<int64_t> out(elems());
  const std::byte* p = bytes.bytes.data();
  for (size_t i = 0; i < out.size(); ++i) switch (dtype) {
    case DType::kS64: out[i] = load<int64_t>(p + i * 8); break;
    case DType::kU64: out[i] = static_cast<int64_t>(load<uint64_t>(p + i * 8)); break;
    case DType::kS32: out[i] = load<int32_t>(p + i * 4); break;
    case DType::kU32: out[i] = load<uint32_t>(p + i * 4); break;
    case DType::kS16: out[i] = load<int16_t>(p + i * 2); break;
    case DType::kU16: out[i] = load<uint16_t>(p + i * 2); break;
    case DType::kS8: out[i] = load<int8_t>(p + i); break;
    default: out[i] = load<uint8_t>(p + i); break;
  }
  return out;
}

Result<DType> dtype_of(int32_t elem_type) {
  const Conversion* c = find_conversion(elem_type);
  if (c == nullptr) return fail(Code::kUnsupported, "element type " + elem_type_name(elem_type) + " is not supported");
  return c->to;
}

int32_t elem_type_of(DType dtype) {
  for (const Conversion& c : kConversions)
    if (c.to == dtype && c.bytes == dtype_bytes(dtype)) return static_cast<int32_t>(c.from);
  return 0;
}

std::string elem_type_name(int32_t elem_type) {
  if (const Conversion* c = find_conversion(elem_type)) return c->name;
  switch (static_cast<ElemType>(elem_type)) {
    case ElemType::kUndefined: return "undefined";
    case ElemType::kString: return "string";
    default: break;
  }
  // Types that nothing here computes in, so that messages can name them.
  constexpr int32_t kFirst = 17;
  constexpr const char* kNames[] = {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",     "int4",
                                    "float4e2m1",   "float8e8m0",     "uint2",      "int2",           "float6e2m3", "float6e3m2"};
  if (elem_type >= kFirst && elem_type < kFirst + static_cast<int32_t>(std::size(kNames))) return kNames[elem_type - kFirst];
  return "number " + std::to_string(elem_type);
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return s + "]";
}

Result<size_t> checked_bytes(const std::vector<int64_t>& dims, size_t elem_bytes) {
  constexpr uint64_t kLimit = 0x7fffffff;
  if (dims.size() > kMaxRank)
    return fail(Code::kUnsupported, "rank " + std::to_string(dims.size()) + " is over the limit of " + std::to_string(kMaxRank));
  uint64_t n = elem_bytes;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0) return fail(Code::kInvalidArgument, "dims " + dims_text(dims) + " have a negative entry");
    empty = empty || d == 0;
    if (d != 0 && n > kLimit / static_cast<uint64_t>(d))
      return fail(Code::kInvalidArgument,
                  "dims " + dims_text(dims) + " are over the limit of " + std::to_string(kLimit) + " bytes");
    n *= d == 0 ? 1 : static_cast<uint64_t>(d);
  }
  return empty ? 0 : static_cast<size_t>(n);
}

Result<void> check_numbers(const ConstTensor& t) {
  if (t.dtype != DType::kF32) return {};
  const std::span<const float> values = t.bytes.as<float>();
  // All exponent bits are set in NaN and infinity only; without a branch, so that the compiler can vectorise the pass.
  uint32_t bad = 0;
  for (float v : values) bad |= (std::bit_cast<uint32_t>(v) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  if (bad == 0) return {};
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i]))
      return fail(Code::kInvalidArgument, tensor_label(t.name) + ": element " + std::to_string(i) + " is NaN");
  return {};
}

namespace {

// A finite float64 that float32 does not reach has become infinite. `raw`: the float64 values of `t`.
Result<void> check_range(const ConstTensor& t, std::span<const std::byte> raw) {
  const std::span<const float> values = t.bytes.as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isinf(values[i]) && !std::isinf(load<double>(raw.data() + i * sizeof(double))))
      return fail(Code::kInvalidArgument,
                  tensor_label(t.name) + ": element " + std::to_string(i) + " is outside the range of float32");
  return {};
}

}  // namespace

ConstTensor dequantized(const ConstTensor& t) {
  if (!t.quant) return t;
  const Quant& q = *t.quant;
  size_t inner = 1;
  if (q.axis >= 0)
    for (size_t i = static_cast<size_t>(q.axis) + 1; i < t.dims.size(); ++i) inner *= static_cast<size_t>(t.dims[i]);
  const std::vector<int64_t> steps = t.ints();
  std::vector<float> values(steps.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = q.axis < 0 ? 0 : i / inner % q.scales.size();
    values[i] = static_cast<float>(steps[i] - q.zero_points[c]) * q.scales[c];
  }
  return {t.name, DType::kF32, t.dims, Constant::of(values)};
}

ConstTensor permuted(const ConstTensor& t, const std::vector<int32_t>& perm) {
  const size_t rank = perm.size(), size = dtype_bytes(t.dtype), total = t.elems();
  std::vector<int64_t> from_stride(rank, 1), stride(rank);
  for (size_t i = rank; i-- > 1;) from_stride[i - 1] = from_stride[i] * t.dims[i];
  ConstTensor out{t.name, t.dtype, std::vector<int64_t>(rank), t.bytes, t.quant};
  if (out.quant && out.quant->axis >= 0)
    out.quant->axis = static_cast<int32_t>(std::find(perm.begin(), perm.end(), out.quant->axis) - perm.begin());
  bool moves = false;
  int32_t last = -1;
  for (size_t i = 0; i < rank; ++i) {
    const int32_t axis = perm[i];
    out.dims[i] = t.dims[static_cast<size_t>(axis)];
    stride[i] = from_stride[static_cast<size_t>(axis)];
    if (out.dims[i] == 1) continue;
    moves = moves || axis < last;
    last = axis;
  }
  if (!moves || total == 0) return out;

  std::vector<std::byte> bytes(total * size);
  std::vector<int64_t> index(rank, 0);
  int64_t from = 0;
  for (size_t i = 0; i < total; ++i) {
    std::memcpy(&bytes[i * size], t.bytes.bytes.data() + static_cast<size_t>(from) * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < out.dims[axis]) break;
      from -= stride[axis] * out.dims[axis];
      index[axis] = 0;
    }
  }
  out.bytes = Constant::copy(bytes);
  return out;
}

Result<ConstTensor> TensorReader::read(const TensorProto& t, BeyondFloat beyond) {
  const bool checked = t.data_type == static_cast<int32_t>(ElemType::kDouble) && beyond == BeyondFloat::kError;
  const Conversion* c = find_conversion(t.data_type);
  if (c == nullptr)
    return fail(Code::kUnsupported, tensor_label(t.name) + ": element type " + elem_type_name(t.data_type) + " is not supported");
  if (t.has_segment) return fail(Code::kUnsupported, tensor_label(t.name) + ": tensors in segments are not supported");
  auto needed = checked_bytes(t.dims, c->bytes);
  if (!needed) return tl::unexpected(with_context(std::move(needed.error()), tensor_label(t.name)));
  ConstTensor out{std::string(t.name), c->to, t.dims, {}};
  const auto wrong_size = [&](size_t has, size_t needs, const char* unit) {
    return fail(Code::kCorrupt, tensor_label(t.name) + ": dims " + dims_text(t.dims) + " need " + std::to_string(needs) + " " +
                                    unit + ", the file has " + std::to_string(has));
  };

  if (t.data_location != kLocationExternal && !t.raw_data) {
    size_t count = 0;
    out.bytes = convert_list(*c, t, &count);
    if (count != *needed / c->bytes) return wrong_size(count, *needed / c->bytes, "values");
    if (checked) LATHE_CHECK_OK(check_range(out, std::as_bytes(std::span(t.double_data))));
    return out;
  }
  LATHE_TRY(Raw raw, t.data_location == kLocationExternal ? external_bytes(t) : raw_bytes(t));
  if (raw.bytes.size() != *needed) return wrong_size(raw.bytes.size(), *needed, "bytes");
  const bool aligned = reinterpret_cast<uintptr_t>(raw.bytes.data()) % c->bytes == 0;
  if (c->to == DType::kF32 && c->from != ElemType::kFloat) out.bytes = convert_raw(*c, raw.bytes);
  else if (!aligned || raw.bytes.empty()) out.bytes = Constant::copy(raw.bytes);
  else out.bytes = Constant{raw.owner, raw.bytes};
  if (checked) LATHE_CHECK_OK(check_range(out, raw.bytes));
  return out;
}

bool TensorReader::owns(const Constant& c) const {
  if (c.owner == owner_) return true;
  return std::any_of(files_.begin(), files_.end(), [&](const auto& f) { return f.second.owner == c.owner; });
}

Result<TensorReader::Raw> TensorReader::raw_bytes(const TensorProto& t) {
  return Raw{owner_, std::as_bytes(std::span<const char>(t.raw_data->data(), t.raw_data->size()))};
}

Result<TensorReader::Raw> TensorReader::external_bytes(const TensorProto& t) {
  const auto it = t.external.find("location");
  if (it == t.external.end()) return fail(Code::kCorrupt, tensor_label(t.name) + ": external data has no location");
  auto file = map_external(std::string(it->second));
  if (!file) return tl::unexpected(with_context(std::move(file.error()), tensor_label(t.name)));
  LATHE_TRY(const uint64_t offset, external_number(t, "offset", 0));
  const uint64_t size = file->bytes.size();
  LATHE_TRY(const uint64_t length, external_number(t, "length", size - std::min(offset, size)));
  if (offset > size || length > size - offset)
    return fail(Code::kCorrupt, tensor_label(t.name) + ": external data file '" + std::string(it->second) + "' has " +
                                    std::to_string(size) + " bytes, offset " + std::to_string(offset) + " and length " +
                                    std::to_string(length) + " reach past it");
  return Raw{file->owner, file->bytes.subspan(offset, length)};
}

Result<TensorReader::Raw> TensorReader::map_external(const std::string& location) {
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  const std::filesystem::path relative(location);
  if (folder_.empty()) return fail(Code::kUnsupported, "external data '" + location + "' of a model that is not a file");
  if (location.empty() || relative.is_absolute() || location.find('\0') != std::string::npos ||
      !is_inside(folder_, folder_ / relative))
    return fail(Code::kInvalidArgument, "external data '" + location + "' lies outside the model's folder");
  LATHE_TRY(auto mapped, MappedFile::open((folder_ / relative).string()));
  const Bytes bytes = mapped->bytes();
  return files_.emplace(location, Raw{mapped, {reinterpret_cast<const std::byte*>(bytes.data), bytes.size}}).first->second;
}

}  // namespace lathe::onnx
