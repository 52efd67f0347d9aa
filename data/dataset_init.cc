// Guesses a description from what lies in a folder. Each format is one function from a listing to a Guess; the first that
// recognises something wins, and one writer turns the guess into TOML.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/file.h"
#include "data/csv.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/sound.h"
#include "data/tensor.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;

constexpr uint64_t kCifarRecordBytes = 1 + 3 * 32 * 32;
constexpr std::array<const char*, 4> kSplitNames = {"train", "calib", "val", "test"};

struct Found {
  std::vector<std::string> paths, labels;
};

struct Guess {
  std::string format;
  std::vector<std::string> head;        // lines before [preprocess]
  std::vector<std::string> preprocess;  // lines inside it
  std::map<std::string, Found> splits;  // by name
};

struct Listing {
  std::vector<std::string> files, folders;  // full paths, sorted
};

Result<Listing> list(const std::string& path) {
  Listing out;
  std::error_code ec;
  if (!stdfs::is_directory(path, ec)) {
    if (!stdfs::exists(path, ec)) return fail(Code::kIo, "cannot read '" + path + "': " + errno_text(ENOENT));
    out.files.push_back(path);
    return out;
  }
  for (stdfs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    if (it->path().filename().string().starts_with('.')) continue;
    std::error_code unreadable;
    (it->is_directory(unreadable) ? out.folders : out.files).push_back(it->path().string());
  }
  if (ec) return fail(Code::kIo, "cannot read folder '" + path + "': " + errno_text(ec.value()));
  std::sort(out.files.begin(), out.files.end());
  std::sort(out.folders.begin(), out.folders.end());
  return out;
}

std::string lower_name(const std::string& path) {
  std::string name = stdfs::path(path).filename().string();
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return name;
}

std::string split_of(const std::string& path) {
  const std::string name = lower_name(path);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("test") || has("t10k")) return "test";
  if (has("calib")) return "calib";
  if (has("val") || has("dev")) return "val";
  return "train";
}

// TOML basic string.
std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string quote_list(const std::vector<std::string>& items) {
  if (items.size() == 1) return quote(items[0]);
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "[" : ", ") + quote(item);
  return out + "]";
}

std::vector<std::string> byte_image_lines(const std::string& channels) {
  return {"scale = \"1/255\"   # bytes to 0..1; leave out if the network takes 0..255",
          "# mean = ... and std = ... follow if the network was trained with them (" + channels + ")",
          "layout = \"nchw\"   # or \"nhwc\", as the network's input says"};
}

std::vector<std::string> with_extension(const std::vector<std::string>& files, std::initializer_list<const char*> extensions) {
  std::vector<std::string> out;
  for (const std::string& f : files) {
    const std::string name = lower_name(f);
    if (std::any_of(extensions.begin(), extensions.end(), [&](const char* e) { return name.ends_with(e); })) out.push_back(f);
  }
  return out;
}

Result<std::optional<Guess>> guess_idx(const Listing& listing) {
  Guess g;
  g.format = "idx";
  g.preprocess = byte_image_lines("one number for one channel");
  for (const std::string& path : listing.files) {
    const std::string name = lower_name(path);
    const size_t at = path.rfind("images");
    if (name.find("images") == std::string::npos || at == std::string::npos) continue;
    LATHE_TRY(const auto bytes, read_file(path));
    if (!looks_like_idx(bytes)) continue;
    Found& found = g.splits[split_of(path)];
    found.paths.push_back(path);
    // train-images-idx3-ubyte.gz belongs with train-labels-idx1-ubyte.gz.
    std::string labels = path;
    labels.replace(at, 6, "labels");
    const size_t rank = labels.rfind("idx3");
    if (rank != std::string::npos) labels.replace(rank, 4, "idx1");
    std::error_code ec;
    if (stdfs::exists(labels, ec)) found.labels.push_back(labels);
  }
  if (g.splits.empty()) return std::nullopt;
  return g;
}

Result<std::optional<Guess>> guess_cifar(const Listing& listing) {
  Guess g;
  g.format = "cifar-bin";
  g.preprocess = byte_image_lines("three numbers, red, green, blue");
  for (const std::string& path : with_extension(listing.files, {".bin"})) {
    std::error_code ec;
    const auto size = stdfs::file_size(path, ec);
    if (!ec && size != 0 && size % kCifarRecordBytes == 0) g.splits[split_of(path)].paths.push_back(path);
  }
  if (g.splits.empty()) return std::nullopt;
  g.head.push_back("label_bytes = 1   # 2 for CIFAR-100");
  return g;
}

using NameTest = bool (*)(const std::string& path);

// Files that `wanted` knows, in the folder itself.
std::vector<std::string> files_of(const std::string& folder, NameTest wanted) {
  std::vector<std::string> out;
  const auto inside = list(folder);
  if (inside) std::copy_if(inside->files.begin(), inside->files.end(), std::back_inserter(out), wanted);
  return out;
}

// Paths of splits below a folder whose samples are files, by the folders' names: "train/class/file", or the folder itself. With
// `flat`, folders of files without classes are splits, too, if one is called test. *example: some of the files.
std::map<std::string, Found> folder_splits(const Listing& listing, const std::string& path, NameTest wanted, bool flat,
                                           std::vector<std::string>* example) {
  std::map<std::string, Found> out;
  const auto add = [&](const std::string& name, const std::string& folder, std::vector<std::string> files) {
    out[name].paths.push_back(folder);
    if (example->empty()) *example = std::move(files);
  };
  for (const std::string& folder : listing.folders) {
    const auto inside = list(folder);
    for (const std::string& deeper : inside ? inside->folders : std::vector<std::string>())
      if (auto files = files_of(deeper, wanted); !files.empty()) {
        add(split_of(folder), folder, std::move(files));
        break;
      }
  }
  if (out.empty() && flat && std::any_of(listing.folders.begin(), listing.folders.end(),
                                         [](const std::string& f) { return split_of(f) == "test"; })) {
    for (const std::string& folder : listing.folders)
      if (auto files = files_of(folder, wanted); !files.empty()) add(split_of(folder), folder, std::move(files));
  }
  if (!out.empty()) return out;
  std::vector<std::string> here;
  std::copy_if(listing.files.begin(), listing.files.end(), std::back_inserter(here), wanted);
  for (const std::string& folder : listing.folders)
    if (here.empty()) here = files_of(folder, wanted);
  if (!here.empty()) add("train", path, std::move(here));
  return out;
}

Result<std::optional<Guess>> guess_image_folder(const Listing& listing, const std::string& path) {
  Guess g;
  g.format = "image-folder";
  g.preprocess = byte_image_lines("three numbers, red, green, blue");
  g.preprocess.push_back("resize = [224, 224]   # height, width of the network's input; bilinear");
  std::vector<std::string> example;
  g.splits = folder_splits(listing, path, has_image_extension, false, &example);
  if (g.splits.empty()) return std::nullopt;
  return g;
}

// "{label}_{}_{}" if all names have as many parts between '_' and their first parts repeat; else "".
std::string name_pattern(const std::vector<std::string>& files) {
  std::optional<ptrdiff_t> parts;
  std::set<std::string> labels;
  for (const std::string& path : files) {
    const std::string name = stdfs::path(path).stem().string();
    const ptrdiff_t found = std::count(name.begin(), name.end(), '_');
    if (found == 0 || parts.value_or(found) != found) return "";
    parts = found;
    labels.insert(name.substr(0, name.find('_')));
  }
  if (labels.size() * 2 > files.size()) return "";
  std::string out = "{label}";
  for (ptrdiff_t i = 0; i < parts.value_or(0); ++i) out += "_{}";
  return out;
}

Result<std::optional<Guess>> guess_wav_folder(const Listing& listing, const std::string& path) {
  Guess g;
  g.format = "wav-folder";
  std::vector<std::string> example;
  g.splits = folder_splits(listing, path, has_sound_extension, true, &example);
  if (g.splits.empty()) return std::nullopt;
  LATHE_TRY(SoundForm form, sound_form_of(example[0]));
  double longest = form.seconds;
  for (size_t i = 1; i < std::min<size_t>(example.size(), 100); ++i) {
    LATHE_TRY(const SoundForm other, sound_form_of(example[i]));
    longest = std::max(longest, other.seconds);
    form.mono = form.mono && other.mono;
  }
  const std::string pattern = name_pattern(example);
  if (!pattern.empty())
    g.head.push_back("file_name = " + quote(pattern) + "   # what names of files hold; {speaker} instead of {} makes groups");
  g.preprocess = {"rate = " + std::to_string(form.rate) + "   # of the files, samples per second",
                  "seconds = " + std::to_string(std::ceil(longest * 10) / 10).substr(0, 5) + "   # longer sounds lose their end",
                  std::string(form.mono ? "# " : "") + "mono = true   # several channels become their mean",
                  "features = \"log-mel\"   # or \"mfcc\", or \"samples\"",
                  "# window = 0.025, hop = 0.01 (seconds), mels = 40 and others follow: data/README.md",
                  "layout = \"nchw\"   # [1, frames, mels]; or \"nhwc\", or \"as-is\" for [frames, mels]"};
  return g;
}

bool is_label_name(const std::string& name) {
  return name == "y" || name == "label" || name == "labels" || name == "target" || name == "class";
}

Result<std::optional<Guess>> guess_npz(const Listing& listing) {
  const auto files = with_extension(listing.files, {".npz", ".npy"});
  if (files.empty()) return std::nullopt;
  Guess g;
  g.format = "npz";
  std::vector<std::string> keys;
  for (const std::string& path : files) {
    LATHE_TRY(const auto arrays, read_arrays(path));
    const bool labels_only = arrays.size() == 1 && arrays[0].tensor.dims.size() == 1 && !is_float(arrays[0].tensor.dtype);
    Found& found = g.splits[split_of(path)];
    (labels_only && lower_name(path).ends_with(".npy") ? found.labels : found.paths).push_back(path);
    if (!keys.empty() || labels_only) continue;
    for (const NamedTensor& a : arrays) {
      g.head.push_back("# array '" + a.name + "': " + dims_text(a.tensor.dims) + " " + dtype_name(a.tensor.dtype));
      if (is_label_name(a.name)) {
        g.head.push_back("label_key = " + quote(a.name));
      } else {
        keys.push_back(a.name);
      }
    }
  }
  if (keys.size() == 1 && !keys[0].empty()) g.head.push_back("key = " + quote(keys[0]));
  g.head.push_back(
      "axes = \"plain\"   # or \"chw\", \"hwc\", \"hw\" for pictures, so that layout and per-channel mean are known");
  if (keys.size() > 1)
    g.head.insert(
        g.head.begin(),
        "# several arrays: describe each input in a table [[input]] with name and key, or choose one with key = \"...\"");
  g.preprocess = {"# scale, zero_point, mean, std: ((v - zero_point) * scale - mean) / std"};
  return g;
}

Result<std::optional<Guess>> guess_csv(const Listing& listing) {
  const auto files = with_extension(listing.files, {".csv", ".tsv"});
  if (files.empty()) return std::nullopt;
  Guess g;
  g.format = "csv";
  LATHE_TRY(const CsvTable table, read_csv(files[0]));
  for (const std::string& column : table.columns)
    if (g.head.empty() && is_label_name(column)) g.head.push_back("label_column = " + quote(column));
  if (g.head.empty()) g.head.push_back("# label_column = \"...\"   # no column has a name like label, target, class or y");
  g.head.push_back("# columns = [...]   # of the input, in its order; without it all but the label");
  g.preprocess = {"# scale, mean, std: (v * scale - mean) / std"};
  for (const std::string& path : files) g.splits[split_of(path)].paths.push_back(path);
  return g;
}

// Fractions of the training files for the splits that have no files of their own.
std::map<std::string, std::string> fractions(const std::map<std::string, Found>& splits) {
  std::vector<std::pair<std::string, double>> shares;
  double left = 1;
  for (const char* name : {"calib", "val", "test"}) {
    if (splits.contains(name)) continue;
    shares.emplace_back(name, 0.1);
    left -= 0.1;
  }
  std::map<std::string, std::string> out;
  if (shares.empty() || !splits.contains("train")) return out;
  const auto text = [](double a, double b) {
    return "fraction = [" + std::to_string(a).substr(0, 3) + ", " + std::to_string(b).substr(0, 3) + "]";
  };
  out["train"] = text(0, left);
  for (const auto& [name, share] : shares) {
    out[name] = text(left, left + share);
    left += share;
  }
  return out;
}

class Writer {
 public:
  explicit Writer(const std::string& toml_folder) : folder_(toml_folder.empty() ? "." : toml_folder) {}

  std::string write(const Guess& g, const std::string& path) {
    line("# Guessed from '" + path + "'. Check each line; then: lathe dataset check FILE");
    line("format = " + quote(g.format));
    for (const std::string& l : g.head) line(l);
    line("# classes = [\"first\", \"second\"]   # names of the labels 0, 1, ...");
    line("");
    line("[preprocess]   # stored in the model; the same for training, calibration, evaluation and serving");
    for (const std::string& l : g.preprocess) line(l);
    line("");
    line("# Calibration reads calib, choices read val, reported figures come from test. A sample in two splits is an error.");
    const auto cut = fractions(g.splits);
    for (const char* name : kSplitNames) {
      const bool own = g.splits.contains(name);
      if (!own && !cut.contains(name)) continue;
      const Found& found = own ? g.splits.at(name) : g.splits.at("train");
      line(std::string("[split.") + name + "]");
      line("paths = " + quote_list(relative(found.paths)));
      if (!found.labels.empty()) line("labels = " + quote_list(relative(found.labels)));
      if (cut.contains(name)) line(cut.at(name) + "   # of the files' samples, shuffled by `seed` (0)");
      line("# groups = \"groups.csv\"   # one line per sample of the files: user, device, ...");
      line("");
    }
    text_.pop_back();
    return std::move(text_);
  }

 private:
  void line(const std::string& l) { text_ += l + "\n"; }
  std::vector<std::string> relative(const std::vector<std::string>& paths) const {
    std::vector<std::string> out;
    for (const std::string& p : paths) {
      std::error_code ec;
      const auto r = stdfs::proximate(p, folder_, ec);
      out.push_back(ec ? p : r.string());
    }
    return out;
  }
  stdfs::path folder_;
  std::string text_;
};

}  // namespace

Result<std::string> dataset_init(const std::string& path, const std::string& toml_folder) {
  LATHE_TRY(const Listing listing, list(path));
  std::optional<Guess> guess;
  for (auto* guesser : {&guess_idx, &guess_cifar, &guess_npz, &guess_csv}) {
    if (guess) break;
    LATHE_TRY(guess, guesser(listing));
  }
  if (!guess) {
    LATHE_TRY(guess, guess_image_folder(listing, path));
  }
  if (!guess) {
    LATHE_TRY(guess, guess_wav_folder(listing, path));
  }
  if (!guess)
    return fail(
        Code::kInvalidArgument,
        "'" + path +
            "': no idx, CIFAR, npz, npy, csv, picture or sound files found; describe it by hand (format raw takes any dense array)");
  return Writer(toml_folder).write(*guess, path);
}

}  // namespace lathe
