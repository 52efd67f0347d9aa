#include "train/teacher_cache.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "base/atomic_file.h"
#include "base/cursor.h"
#include "base/file.h"
#include "lathe/float16.h"

namespace lathe::train {
namespace {

namespace stdfs = std::filesystem;

constexpr std::string_view kMagic = "LATHETC1";
constexpr std::string_view kExtension = ".teacher";
constexpr uint64_t kSegmentRows = 2048, kSegmentBytes = uint64_t{4} << 20;  // a segment is written when it has as many
constexpr size_t kManySegments = 32;                                        // more are joined when the cache is opened
constexpr uint64_t kKeyBytes = 16;

struct HashOfHash {
  size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.low); }
};

// Rows in the order in which they came.
struct Rows {
  std::vector<Hash128> keys;
  std::vector<uint16_t> values;  // [keys, outputs], fp16
};

template <class T>
void put(std::vector<std::byte>* out, T v) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<std::byte>(v >> (8 * i)));
}

void put_text(std::vector<std::byte>* out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  out->insert(out->end(), bytes.begin(), bytes.end());
}

// Little-endian: magic, u32 length and text of the domain, u32 outputs, u64 rows, keys (high, low), values, u64 hash of all
// before it.
std::vector<std::byte> encode(const std::string& domain, uint32_t outputs, const Rows& rows, size_t first) {
  std::vector<std::byte> out;
  put_text(&out, kMagic);
  put(&out, static_cast<uint32_t>(domain.size()));
  put_text(&out, domain);
  put(&out, outputs);
  put(&out, static_cast<uint64_t>(rows.keys.size() - first));
  for (size_t i = first; i < rows.keys.size(); ++i) {
    put(&out, rows.keys[i].high);
    put(&out, rows.keys[i].low);
  }
  for (size_t i = first * outputs; i < rows.values.size(); ++i) put(&out, rows.values[i]);
  put(&out, hash64(out));
  return out;
}

// nullptr, or why the bytes are no segment of the domain.
const char* decode(std::span<const std::byte> file, const std::string& domain, uint32_t outputs, Rows* rows) {
  constexpr const char* kDamaged = "is damaged";
  if (file.size() < sizeof(uint64_t)) return kDamaged;
  Cursor end(file.last(sizeof(uint64_t)));
  Cursor at(file.first(file.size() - sizeof(uint64_t)));
  uint64_t checksum = 0, count = 0, key_bytes = 0, value_bytes = 0;
  uint32_t length = 0, found_outputs = 0;
  std::string_view magic, text;
  if (!end.read_le(&checksum) || checksum != hash64(file.first(file.size() - sizeof(uint64_t)))) return kDamaged;
  if (!at.take_text(kMagic.size(), &magic) || magic != kMagic) return "is no cache of a teacher's outputs";
  if (!at.read_le(&length) || !at.take_text(length, &text)) return kDamaged;
  if (text != domain) return "belongs to another teacher or other data";
  if (!at.read_le(&found_outputs) || found_outputs != outputs || !at.read_le(&count)) return kDamaged;
  if (!checked_mul(count, kKeyBytes, &key_bytes) || !checked_mul(count, uint64_t{2} * outputs, &value_bytes)) return kDamaged;
  if (key_bytes > at.remaining() || value_bytes != at.remaining() - key_bytes) return kDamaged;
  for (uint64_t i = 0; i < count; ++i) {
    Hash128 key;
    if (!at.read_le(&key.high) || !at.read_le(&key.low)) return kDamaged;
    rows->keys.push_back(key);
  }
  for (uint64_t i = 0; i < count * outputs; ++i) {
    uint16_t value = 0;
    if (!at.read_le(&value)) return kDamaged;
    rows->values.push_back(value);
  }
  return nullptr;
}

std::string domain_of(const TeacherCacheOptions& o, const Batches& batches) {
  const Augment& augment = batches.augment();
  return "teacher " + to_hex(o.teacher) + "\npreprocessing " + to_hex(o.preprocessing) + "\naugment " + to_text(augment) +
         "\nseed " + (augment.is_random() ? std::to_string(batches.seed()) : std::string("any")) + "\noutputs " +
         std::to_string(o.outputs) + "\n";
}

}  // namespace

struct TeacherCache::State {
  TeacherCacheOptions options;
  const Batches& batches;
  std::string domain, stem;  // of file names
  Rows rows;
  size_t written = 0;  // rows in segments
  std::unordered_map<Hash128, size_t, HashOfHash> index;
  TeacherCacheStats stats;

  uint64_t row_bytes() const { return kKeyBytes + uint64_t{2} * options.outputs; }

  Result<std::vector<std::string>> segments() const {
    std::vector<std::string> out;
    std::error_code error;
    for (stdfs::directory_iterator it(options.folder, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.starts_with(stem) && name.ends_with(kExtension)) out.push_back(it->path().string());
    }
    if (error) return fail(Code::kIo, "cannot read folder '" + options.folder + "': " + errno_text(error.value()));
    std::sort(out.begin(), out.end());
    return out;
  }

  // False: there is no room for it.
  bool add(const Hash128& key, std::span<const uint16_t> values) {
    if (index.contains(key)) return true;
    if ((rows.keys.size() + 1) * row_bytes() > options.max_bytes) return false;
    index.emplace(key, rows.keys.size());
    rows.keys.push_back(key);
    rows.values.insert(rows.values.end(), values.begin(), values.end());
    stats.rows = rows.keys.size();
    stats.bytes = stats.rows * row_bytes();
    return true;
  }

  Result<void> read() {
    LATHE_TRY(const auto files, segments());
    std::vector<std::string> whole;
    for (const std::string& path : files) {
      std::error_code error;
      const auto bytes = read_file(path);
      // Another process may have joined it with others meanwhile.
      if (!bytes && !stdfs::exists(path, error)) continue;
      if (!bytes) return tl::unexpected<Error>(bytes.error());
      Rows found;
      const char* problem = decode(*bytes, domain, options.outputs, &found);
      if (problem != nullptr) {
        stats.damaged.push_back("'" + path + "' " + problem);
        continue;
      }
      whole.push_back(path);
      for (size_t i = 0; i < found.keys.size(); ++i)
        add(found.keys[i], std::span(found.values).subspan(i * options.outputs, options.outputs));
    }
    if (whole.size() <= kManySegments) {
      written = rows.keys.size();
      return {};
    }
    LATHE_TRY(const std::string joined, write_segment());
    for (const std::string& path : whole) {
      std::error_code error;
      if (path != joined) stdfs::remove(path, error);  // one that stays is read again, which does no harm
    }
    return {};
  }

  // Rows from `written` on; the file is named after what it holds.
  Result<std::string> write_segment() {
    const auto bytes = encode(domain, options.outputs, rows, written);
    const std::string path = options.folder + "/" + stem + to_hex(hash128(bytes)) + std::string(kExtension);
    LATHE_CHECK_OK(write_file_atomic(path, bytes));
    written = rows.keys.size();
    return path;
  }

  Result<void> compute_missing(const Batch& batch, const std::vector<Hash128>& keys, const std::vector<uint32_t>& missing,
                               const Compute& compute, std::vector<float>* out) {
    const size_t n = options.outputs;
    std::vector<float> values(missing.size() * n);
    LATHE_CHECK_OK(compute(missing, values));
    std::vector<uint16_t> halves(n);
    for (size_t i = 0; i < missing.size(); ++i) {
      for (size_t k = 0; k < n; ++k) {
        const float v = values[i * n + k];
        halves[k] = float_to_half(v);
        const float kept = half_to_float(halves[k]);
        if (!(kept - kept == 0))
          return fail(Code::kInvalidArgument, "sample " + std::to_string(batch.samples[missing[i]]) + ": the teacher's output " +
                                                  std::to_string(k) + " is " + std::to_string(v) + ", which fp16 does not hold");
        (*out)[missing[i] * n + k] = kept;
      }
      if (!add(keys[missing[i]], halves)) ++stats.not_kept;
    }
    stats.computed += missing.size();
    return {};
  }
};

TeacherCache::TeacherCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
TeacherCache::TeacherCache(TeacherCache&&) noexcept = default;
TeacherCache& TeacherCache::operator=(TeacherCache&&) noexcept = default;
TeacherCache::~TeacherCache() {
  if (state_ != nullptr) (void)flush();
}

Result<TeacherCache> TeacherCache::open(const TeacherCacheOptions& options, const Batches& batches) {
  if (options.outputs == 0) return fail(Code::kInvalidArgument, "a teacher without outputs");
  std::error_code error;
  stdfs::create_directories(options.folder, error);
  if (error) return fail(Code::kIo, "cannot make folder '" + options.folder + "': " + errno_text(error.value()));
  std::unique_ptr<State> state(new State{options, batches, domain_of(options, batches), {}, {}, 0, {}, {}});
  state->stem = to_hex(hash128(state->domain)).substr(0, 16) + "-";
  LATHE_CHECK_OK(state->read());
  return TeacherCache(std::move(state));
}

Result<void> TeacherCache::outputs(const Batch& batch, const Compute& compute, std::vector<float>* out) {
  State& s = *state_;
  const size_t n = s.options.outputs;
  LATHE_TRY(const std::vector<Hash128> keys, s.batches.keys(batch));
  out->resize(batch.rows() * n);
  std::vector<uint32_t> missing;
  for (uint32_t row = 0; row < batch.rows(); ++row) {
    const auto it = s.index.find(keys[row]);
    if (it == s.index.end()) {
      missing.push_back(row);
      continue;
    }
    ++s.stats.found;
    for (size_t k = 0; k < n; ++k) (*out)[row * n + k] = half_to_float(s.rows.values[it->second * n + k]);
  }
  if (!missing.empty()) LATHE_CHECK_OK(s.compute_missing(batch, keys, missing, compute, out));
  const uint64_t pending = s.rows.keys.size() - s.written;
  return pending >= kSegmentRows || pending * s.row_bytes() >= kSegmentBytes ? flush() : Result<void>();
}

Result<void> TeacherCache::flush() {
  if (state_->written == state_->rows.keys.size()) return {};
  LATHE_CHECK_OK(state_->write_segment());
  return {};
}

const TeacherCacheStats& TeacherCache::stats() const { return state_->stats; }

std::string teacher_cache_folder(const std::string& output) {
  const stdfs::path parent = stdfs::path(output).parent_path();
  return (parent.empty() ? stdfs::path("teacher-cache") : parent / "teacher-cache").string();
}

}  // namespace lathe::train
