#include "runtime/file.h"

namespace lathe {
namespace {

constexpr uint32_t saturate(uint64_t v) { return v > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(v); }

Status corrupt(uint32_t where, uint64_t needed, uint64_t got) { return {Code::kCorrupt, where, saturate(needed), saturate(got)}; }

Status check_section(const FileSection& s, uint32_t index, uint64_t tables_end, uint64_t file_bytes) {
  if (section_name(s.kind) == nullptr) {
    if ((s.flags & kSectionRequired) != 0) return {Code::kUnsupported, index, 0, static_cast<uint32_t>(s.kind)};
  }
  const uint64_t begin = static_cast<uint64_t>(s.offset_units) * kUnitBytes;
  if (begin < tables_end) return corrupt(index, tables_end, begin);
  if (begin > file_bytes || s.bytes > file_bytes - begin)
    return corrupt(index, s.bytes, begin > file_bytes ? 0 : file_bytes - begin);
  const uint64_t after = file_bytes - begin - s.bytes;
  if (s.kind == SectionKind::kWeights && after < kWeightsTail) return corrupt(index, kWeightsTail, after);
  return {};
}

}  // namespace

Bytes FileView::find(SectionKind kind, uint32_t tag) const {
  for (uint32_t i = 0; i < section_count(); ++i)
    if (section(i).kind == kind && section(i).tag == tag) return bytes(section(i));
  return {};
}

Status file_open(Bytes file, FileView* out) {
  if (file.data == nullptr || (reinterpret_cast<uintptr_t>(file.data) & (kUnitBytes - 1)) != 0)
    return {Code::kInvalidArgument, 0, kUnitBytes, 0};
  if (file.size < sizeof(FileHeader)) return corrupt(0, sizeof(FileHeader), file.size);
  const FileHeader& h = *reinterpret_cast<const FileHeader*>(file.data);
  if (h.magic != kFileMagic) return corrupt(0, kFileMagic, h.magic);
  if (h.major != kFileMajor) return {Code::kVersion, 0, kFileMajor, h.major};
  if (h.file_bytes != file.size) return corrupt(0, h.file_bytes, file.size);
  if (h.section_count == 0 || h.section_count > kMaxSections) return corrupt(0, kMaxSections, h.section_count);
  if (h.record_bytes < sizeof(FileSection) || h.record_bytes % 8 != 0 || h.record_bytes > 4096)
    return corrupt(0, sizeof(FileSection), h.record_bytes);
  const uint64_t tables_end = sizeof(FileHeader) + static_cast<uint64_t>(h.section_count) * h.record_bytes;
  if (tables_end > file.size) return corrupt(0, tables_end, file.size);

  FileView view;
  view.file_ = file;
  for (uint32_t i = 0; i < h.section_count; ++i) {
    const Status s = check_section(view.section(i), i, tables_end, file.size);
    if (!s.ok()) return s;
  }
  *out = view;
  return {};
}

}  // namespace lathe
