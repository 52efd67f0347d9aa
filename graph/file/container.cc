#include "graph/file/container.h"

#include <algorithm>
#include <cstring>
#include <xxhash.h>

#include "base/hash.h"

namespace lathe {
namespace {

constexpr std::byte kZeros[kUnitBytes] = {};

uint64_t to_units(uint64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes; }

Result<void> write_padding(const Sink& sink, uint64_t written) {
  const uint64_t rest = to_units(written) * kUnitBytes - written;
  if (rest == 0) return {};
  return sink(std::span(kZeros, rest));
}

Result<uint64_t> weights_checksum(const WeightsSection& weights) {
  const std::unique_ptr<XXH64_state_t, void (*)(XXH64_state_t*)> state(XXH64_createState(),
                                                                       [](XXH64_state_t* s) { XXH64_freeState(s); });
  if (state == nullptr) return fail(Code::kOutOfMemory, "no memory for a checksum");
  XXH64_reset(state.get(), 0);
  LATHE_CHECK_OK(weights.write([&](std::span<const std::byte> piece) -> Result<void> {
    XXH64_update(state.get(), piece.data(), piece.size());
    return {};
  }));
  return XXH64_digest(state.get());
}

std::span<const std::byte> as_span(const std::vector<uint8_t>& v) { return std::as_bytes(std::span(v)); }

// Header and section table. The sections follow in order, WEIGHTS last.
Result<std::vector<uint8_t>> head_bytes(const std::vector<Section>& sections, const WeightsSection& weights) {
  std::vector<FileSection> table;
  uint64_t at = to_units(sizeof(FileHeader) + (sections.size() + 1) * sizeof(FileSection));
  for (const Section& s : sections) {
    table.push_back({s.kind, s.required ? kSectionRequired : 0, static_cast<uint32_t>(at), s.tag, s.bytes.size(),
                     section_checksum({s.bytes.data(), s.bytes.size()})});
    at += to_units(s.bytes.size());
  }
  LATHE_TRY(const uint64_t checksum, weights_checksum(weights));
  table.push_back({SectionKind::kWeights, kSectionRequired, static_cast<uint32_t>(at), 0, weights.bytes(), checksum});
  at += to_units(weights.bytes() + kWeightsTail);
  if (at > 0xffffffffu) return fail(Code::kUnsupported, "a file of over 256 GiB");
  FileHeader header{};
  header.magic = kFileMagic;
  header.major = kFileMajor;
  header.minor = kFileMinor;
  header.file_bytes = at * kUnitBytes;
  header.section_count = static_cast<uint32_t>(table.size());
  header.record_bytes = sizeof(FileSection);
  std::vector<uint8_t> head(sizeof(header) + table.size() * sizeof(FileSection));
  std::memcpy(head.data(), &header, sizeof(header));
  std::memcpy(head.data() + sizeof(header), table.data(), table.size() * sizeof(FileSection));
  header.checksum = head_checksum({head.data(), head.size()});
  std::memcpy(head.data(), &header, sizeof(header));
  return head;
}

}  // namespace

uint64_t head_checksum(Bytes file) {
  FileHeader header;
  std::memcpy(&header, file.data, sizeof header);
  const uint64_t table_bytes = uint64_t{header.section_count} * header.record_bytes;
  std::vector<uint8_t> head(file.data, file.data + sizeof header + table_bytes);
  header.checksum = 0;
  std::memcpy(head.data(), &header, sizeof header);
  return section_checksum({head.data(), head.size()});
}

uint64_t section_checksum(Bytes bytes) { return XXH64(bytes.data, bytes.size, 0); }

Result<uint32_t> WeightsSection::place(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const uint64_t key = hash64(bytes);
  const auto [first, last] = index_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    const Piece& p = pieces_[it->second];
    if (std::equal(p.bytes.begin(), p.bytes.end(), bytes.begin(), bytes.end())) return p.at;
  }
  const uint64_t at = to_units(bytes_);
  if (at + to_units(bytes.size()) > 0xffffffffu) return fail(Code::kUnsupported, "weights of over 256 GiB");
  index_.emplace(key, pieces_.size());
  pieces_.push_back({bytes, std::move(owner), static_cast<uint32_t>(at)});
  bytes_ = at * kUnitBytes + bytes.size();
  return static_cast<uint32_t>(at);
}

Result<void> WeightsSection::write(const Sink& sink) const {
  uint64_t written = 0;
  for (const Piece& p : pieces_) {
    LATHE_CHECK_OK(write_padding(sink, written));
    LATHE_CHECK_OK(sink(p.bytes));
    written = p.at * uint64_t{kUnitBytes} + p.bytes.size();
  }
  return {};
}

Result<void> write_container(const std::vector<Section>& sections, const WeightsSection& weights, const Sink& sink) {
  if (sections.size() + 1 > kMaxSections) return fail(Code::kUnsupported, std::to_string(sections.size() + 1) + " sections");
  LATHE_TRY(const std::vector<uint8_t> head, head_bytes(sections, weights));
  LATHE_CHECK_OK(sink(as_span(head)));
  LATHE_CHECK_OK(write_padding(sink, head.size()));
  for (const Section& s : sections) {
    LATHE_CHECK_OK(sink(as_span(s.bytes)));
    LATHE_CHECK_OK(write_padding(sink, s.bytes.size()));
  }
  LATHE_CHECK_OK(weights.write(sink));
  LATHE_CHECK_OK(sink(std::span(kZeros, kWeightsTail)));
  return write_padding(sink, weights.bytes() + kWeightsTail);
}

}  // namespace lathe
