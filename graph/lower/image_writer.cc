#include "graph/lower/image_writer.h"

#include <cstring>
#include <limits>
#include <new>

#include "base/hash.h"

namespace lathe {
namespace {

template <class T>
void append(std::vector<uint8_t>& out, const std::vector<T>& records) {
  const size_t at = out.size(), bytes = records.size() * sizeof(T);
  out.resize(at + bytes);
  if (bytes > 0) std::memcpy(out.data() + at, records.data(), bytes);
}

bool fits_int32(int64_t v) { return v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max(); }

std::shared_ptr<const uint8_t> aligned(uint64_t bytes) {
  constexpr std::align_val_t kAlign{kUnitBytes};
  auto* p = static_cast<uint8_t*>(::operator new(bytes, kAlign, std::nothrow));
  return {p, [](const uint8_t* q) { ::operator delete(const_cast<uint8_t*>(q), kAlign); }};
}

}  // namespace

uint32_t ImageWriter::add_dim(const ProgramDim& record) {
  records_.push_back(record);
  return static_cast<uint32_t>(records_.size() - 1);
}

Result<uint32_t> ImageWriter::dim(Dim d) {
  if (!d.valid()) return fail(Code::kUnsupported, "a dim is not known");
  const auto found = dim_records_.find(d.id);
  if (found != dim_records_.end()) return found->second;
  const DimNode& node = dims_.node(d);
  ProgramDim record{node.op, {}, 0, 0};
  switch (node.op) {
    case DimOp::kConst:
      if (!fits_int32(node.a)) return fail(Code::kUnsupported, "dim " + dims_.text(d) + " does not fit 32 bits");
      record.a = static_cast<int32_t>(node.a);
      break;
    case DimOp::kSymbol:
      record.a = static_cast<int32_t>(symbols_.try_emplace(node.a, static_cast<uint32_t>(symbols_.size())).first->second);
      break;
    case DimOp::kValue: {
      const auto tensor = data_tensors_.find(node.a);
      if (tensor == data_tensors_.end() || !fits_int32(node.b))
        return fail(Code::kUnsupported, "dim " + dims_.text(d) + " depends on data that is not there yet");
      record.a = static_cast<int32_t>(tensor->second);
      record.b = static_cast<int32_t>(node.b);
      break;
    }
    default: {
      LATHE_TRY(const uint32_t a, dim(Dim{static_cast<uint32_t>(node.a)}));
      LATHE_TRY(const uint32_t b, dim(Dim{static_cast<uint32_t>(node.b)}));
      record.a = static_cast<int32_t>(a);
      record.b = static_cast<int32_t>(b);
    }
  }
  return dim_records_[d.id] = add_dim(record);
}

Result<uint32_t> ImageWriter::tensor(const TensorSpec& spec, std::span<const Dim> dims) {
  if (dims.size() > kMaxRank)
    return fail(Code::kUnsupported, "rank " + std::to_string(dims.size()) + " is over " + std::to_string(kMaxRank));
  if (tensors_.size() >= kMaxTensors) return fail(Code::kUnsupported, "more than " + std::to_string(kMaxTensors) + " tensors");
  ProgramTensor t{};
  t.dtype = spec.dtype;
  t.kind = spec.kind;
  t.rank = static_cast<uint8_t>(dims.size());
  t.layout = spec.layout;
  t.port = spec.port;
  t.stored_bytes = spec.packed_bytes;
  if (spec.quant) {
    t.flags |= kTensorHasQuant;
    t.quant = *spec.quant;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    LATHE_TRY(t.dims[i], dim(dims[i]));
  }
  tensors_.push_back(t);
  values_.push_back(spec.value);
  packings_.push_back(spec.packing);
  return static_cast<uint32_t>(tensors_.size() - 1);
}

Result<uint32_t> ImageWriter::stored(const TensorSpec& spec, std::span<const int64_t> dims, std::vector<uint8_t> bytes) {
  LATHE_TRY(const uint32_t index, tensor(spec, {}));
  if (dims.size() > kMaxRank)
    return fail(Code::kUnsupported, "rank " + std::to_string(dims.size()) + " is over " + std::to_string(kMaxRank));
  if (bytes.size() > 0xffffffffu) return fail(Code::kUnsupported, "a constant of " + std::to_string(bytes.size()) + " bytes");
  ProgramTensor& t = tensors_[index];
  t.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!fits_int32(dims[i])) return fail(Code::kUnsupported, "dim " + std::to_string(dims[i]) + " does not fit 32 bits");
    const auto found = constant_records_.find(dims[i]);
    t.dims[i] = found != constant_records_.end() ? found->second : add_dim({DimOp::kConst, {}, static_cast<int32_t>(dims[i]), 0});
    constant_records_[dims[i]] = t.dims[i];
  }
  t.stored_bytes = static_cast<uint32_t>(bytes.size());
  LATHE_TRY(t.offset_units, place(std::move(bytes)));
  return index;
}

Result<uint32_t> ImageWriter::place(std::vector<uint8_t> bytes) {
  const uint64_t key = hash64(std::as_bytes(std::span(bytes)));
  const auto [first, last] = chunk_index_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (chunks_[it->second].bytes == bytes) return static_cast<uint32_t>(chunks_[it->second].at / kUnitBytes);
  }
  const uint64_t at = weights_bytes_;
  if (at / kUnitBytes > 0xffffffffu) return fail(Code::kOutOfMemory, "weights of over 256 GiB");
  weights_bytes_ = (at + bytes.size() + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  chunk_index_.emplace(key, chunks_.size());
  chunks_.push_back({at, std::move(bytes)});
  return static_cast<uint32_t>(at / kUnitBytes);
}

Result<void> ImageWriter::step(Step step) {
  while (!step.inputs.empty() && step.inputs.back() == kNoTensor) step.inputs.pop_back();
  ProgramStep s{};
  s.op = static_cast<uint16_t>(step.op);
  s.version = 1;
  if (step.inputs.size() > 0xffff) return fail(Code::kUnsupported, std::to_string(step.inputs.size()) + " operands");
  s.n_in = static_cast<uint16_t>(step.inputs.size());
  s.n_out = static_cast<uint16_t>(step.outputs.size());
  s.operands = static_cast<uint32_t>(operands_.size());
  operands_.insert(operands_.end(), step.inputs.begin(), step.inputs.end());
  operands_.insert(operands_.end(), step.outputs.begin(), step.outputs.end());
  s.attrs = static_cast<uint32_t>(attrs_.size());
  std::visit(
      [&]<class A>(const A& a) {
        if constexpr (!A::kEmpty) {
          const auto* p = reinterpret_cast<const uint8_t*>(&a);
          attrs_.insert(attrs_.end(), p, p + sizeof(A));
        }
      },
      step.attrs);
  s.attr_bytes = static_cast<uint32_t>(attrs_.size()) - s.attrs;
  s.macs_dim = kNoTensor;
  if (step.macs.valid()) {
    LATHE_TRY(s.macs_dim, dim(step.macs));
  }
  steps_.push_back(s);
  infos_.push_back(std::move(step.info));
  return {};
}

Result<void> ImageWriter::end_segment(int64_t number, uint32_t tensor) {
  if (!data_tensors_.emplace(number, tensor).second)
    return fail(Code::kInvalidArgument, "number " + std::to_string(number) + " is used twice");
  segment_ends_.push_back(static_cast<uint32_t>(steps_.size()));
  return {};
}

std::vector<uint8_t> ImageWriter::plan_bytes(Target target) const {
  ProgramHeader h{};
  h.magic = kProgramMagic;
  h.major = kProgramMajor;
  h.minor = kProgramMinor;
  h.target = static_cast<uint32_t>(target);
  std::vector<uint8_t> out(sizeof(h));
  const auto table = [&](const auto& records, uint32_t& count, uint32_t& at) {
    count = static_cast<uint32_t>(records.size());
    at = static_cast<uint32_t>(out.size());
    append(out, records);
  };
  h.dim_bytes = sizeof(ProgramDim);
  h.tensor_bytes = sizeof(ProgramTensor);
  h.step_bytes = sizeof(ProgramStep);
  table(records_, h.dim_count, h.dim_at);
  table(tensors_, h.tensor_count, h.tensor_at);
  table(steps_, h.step_count, h.step_at);
  table(operands_, h.operand_count, h.operand_at);
  table(attrs_, h.attr_total, h.attr_at);
  std::vector<uint32_t> segments = segment_ends_;
  segments.push_back(h.step_count);
  table(segments, h.segment_count, h.segment_at);
  h.symbol_count = static_cast<uint32_t>(symbols_.size());
  for (const ProgramTensor& t : tensors_) {
    h.input_count += t.kind == TensorKind::kInput ? 1 : 0;
    h.output_count += t.kind == TensorKind::kOutput ? 1 : 0;
    h.variable_count += t.kind == TensorKind::kVariable ? 1 : 0;
  }
  h.bytes = static_cast<uint32_t>(out.size());
  std::memcpy(out.data(), &h, sizeof(h));
  return out;
}

Result<ProgramImage> ImageWriter::finish(Target target) {
  ProgramImage image;
  image.weights_bytes = weights_bytes_;
  const std::shared_ptr<const uint8_t> weights = aligned(weights_bytes_ + kUnitBytes);
  if (weights == nullptr)
    return fail(Code::kOutOfMemory, "no memory for " + std::to_string(weights_bytes_) + " bytes of weights");
  auto* to = const_cast<uint8_t*>(weights.get());
  std::memset(to + weights_bytes_, 0, kUnitBytes);
  for (const Chunk& c : chunks_) {
    const uint64_t padded = (c.bytes.size() + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
    if (!c.bytes.empty()) std::memcpy(to + c.at, c.bytes.data(), c.bytes.size());
    std::memset(to + c.at + c.bytes.size(), 0, padded - c.bytes.size());
  }
  image.weights = weights;
  image.plan = plan_bytes(target);
  image.steps = std::move(infos_);
  image.tensor_values = std::move(values_);
  image.tensor_packings = std::move(packings_);
  image.symbol_names.resize(symbols_.size());
  for (const auto& [number, record] : symbols_) image.symbol_names[record] = dims_.symbol_name(static_cast<size_t>(number));
  return image;
}

}  // namespace lathe
