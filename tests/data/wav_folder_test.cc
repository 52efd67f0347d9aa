// Format wav-folder: sounds in folders and lists, their form, their labels and groups.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "base/atomic_file.h"
#include "data/dataset.h"
#include "data/folder.h"
#include "data/sound.h"
#include "sound_file.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;
using test::TempFolder;
using test::wav_bytes;

TEST_CASE("names of files are taken apart by a pattern") {
  const auto matched = [](const char* pattern, const char* name) {
    const auto p = parse_name_pattern(pattern);
    REQUIRE_MESSAGE(p, (p ? "" : p.error().message));
    std::vector<std::string> values(p->fields.size());
    if (!match_name(*p, name, &values)) return std::string("no");
    std::string out;
    for (const std::string& v : values) out += "[" + v + "]";
    return out;
  };
  CHECK(matched("{label}_{speaker}_{}", "7_theo_12") == "[7][theo][12]");
  CHECK(matched("{label}_{speaker}", "7_theo_12") == "[7][theo_12]");
  CHECK(matched("rec-{}-{label}.x", "rec-3-go.x") == "[3][go]");
  CHECK(matched("{label}", "anything") == "[anything]");
  CHECK(matched("{label}_{}", "seven") == "no");
  CHECK(matched("a{label}b", "axc") == "no");
  CHECK(matched("{label}.x", "7.y") == "no");
  CHECK(matched("same", "same") == "");
  CHECK(matched("same", "same2") == "no");
  for (const char* bad : {"{label", "{a}{b}", "{a}_{a}"}) CHECK_MESSAGE(!parse_name_pattern(bad), bad);
}

#ifdef LATHE_AUDIO

void put(const TempFolder& folder, const std::string& name, const Bytes& bytes) {
  std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
  REQUIRE(write_file_atomic(folder.file(name), bytes));
}

Result<Dataset> load(const TempFolder& folder, const std::string& toml) {
  REQUIRE(write_file_atomic(folder.file("set.toml"), toml));
  return Dataset::load(folder.file("set.toml"));
}

Dataset loaded(const TempFolder& folder, const std::string& toml) {
  auto set = load(folder, toml);
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  return std::move(*set);
}

std::string error_of(const TempFolder& folder, const std::string& toml) {
  const auto set = load(folder, toml);
  return set ? "" : set.error().message;
}

std::vector<float> sample(const Dataset& set, const char* split, uint64_t index) {
  std::vector<float> out(set.inputs()[0].bytes / sizeof(float));
  const auto filled = set.split(split)->fill(0, index, out.data());
  REQUIRE_MESSAGE(filled, (filled ? "" : filled.error().message));
  return out;
}

std::string head(const std::string& preprocess) { return "format = 'wav-folder'\n[preprocess]\nrate = 1000\n" + preprocess + "\n"; }
const std::string kTrain = "[split.train]\npaths = 'train'\n";

TEST_CASE("class folders of sounds of several lengths become samples of one length") {
  const TempFolder folder;
  put(folder, "train/no/a.wav", wav_bytes(1000, 1, {16384, -32768, 8192}));
  put(folder, "train/yes/b.WAV", wav_bytes(1000, 1, {1, 2, 3, 4, 5, 6}));
  put(folder, "train/yes/notes.txt", test::bytes_of("not a sound"));
  const Dataset set = loaded(folder, head("seconds = 0.005") + kTrain);
  CHECK(set.classes() == std::vector<std::string>{"no", "yes"});
  CHECK(set.inputs()[0].dims == std::vector<int64_t>{5});
  CHECK(set.split("train")->label(1) == 1);
  CHECK(sample(set, "train", 0) == std::vector<float>{0.5f, -1, 0.25f, 0, 0});
  CHECK(sample(set, "train", 1)[4] == 5.0f / 32768);
  CHECK(set.split("train")->where(1) == "file '" + folder.file("train/yes/b.WAV") + "'");
  // Without a length the second is not as long as the first.
  CHECK(error_of(folder, head("") + kTrain) ==
        "file '" + folder.file("train/yes/b.WAV") + "': sound of 6 samples, the first one has 3 (give seconds = ...)");
}

TEST_CASE("labels and groups come from names of files, and groups from a file besides") {
  const TempFolder folder;
  for (const char* name : {"1_ann_0", "0_bob_0", "1_bob_0"}) {
    const auto value = static_cast<int16_t>(name[0] * 100 + name[2]);
    put(folder, std::string("train/") + name + ".wav", wav_bytes(1000, 1, {value, value}));
  }
  put(folder, "g.csv", test::bytes_of("device\nold\nnew\nold\n"));
  const std::string pattern = "file_name = '{label}_{speaker}_{}'\n";
  const Dataset set = loaded(folder, pattern + head("") + kTrain + "groups = 'g.csv'\nrange = [1, 3]\n");
  const DataSplit& split = *set.split("train");
  CHECK(set.classes() == std::vector<std::string>{"0", "1"});
  REQUIRE(split.size() == 2);
  CHECK(split.label(0) == 1);
  REQUIRE(split.groups().size() == 2);
  CHECK(split.groups()[0].name == "speaker");
  CHECK(split.groups()[0].values == std::vector<std::string>{"ann", "bob"});
  CHECK(split.groups()[1].values == std::vector<std::string>{"new", "old"});

  CHECK(error_of(folder, "classes = ['1']\n" + pattern + head("") + kTrain) ==
        "file '" + folder.file("train/0_bob_0.wav") + "' has '0', which is no class of the set");
  CHECK(error_of(folder, "file_name = '{label}-{}'\n" + head("") + kTrain) ==
        "file '" + folder.file("train/0_bob_0.wav") + "': its name is not of the form '{label}-{}'");
  CHECK(contains(error_of(folder, "file_name = '{label'\n" + head("") + kTrain), "set.toml:1: file_name '{label' has '{' without '}'"));
  put(folder, "twice.csv", test::bytes_of("speaker\na\nb\nc\n"));
  CHECK(contains(error_of(folder, pattern + head("") + kTrain + "groups = 'twice.csv'\n"), "two groups of the name 'speaker'"));
}

TEST_CASE("a list names files, their labels and their groups") {
  const TempFolder folder;
  put(folder, "sounds/a.wav", wav_bytes(1000, 1, {100, 0}));
  put(folder, "sounds/b.wav", wav_bytes(1000, 1, {200, 0}));
  put(folder, "lists/train.csv", test::bytes_of("speaker,clip,word\nann,../sounds/b.wav,yes\nbob,../sounds/a.wav,no\n"));
  const std::string columns = "file_column = 'clip'\nlabel_column = 'word'\n", split = "[split.train]\npaths = 'lists/train.csv'\n";
  const Dataset set = loaded(folder, columns + head("") + split);
  CHECK(set.classes() == std::vector<std::string>{"no", "yes"});
  CHECK(set.split("train")->label(0) == 1);
  CHECK(sample(set, "train", 0)[0] == 200.0f / 32768);
  CHECK(set.split("train")->groups()[0].values == std::vector<std::string>{"ann", "bob"});
  CHECK(error_of(folder, head("") + split) == folder.file("lists/train.csv") + ": no column 'file'");
  put(folder, "lists/train.csv", test::bytes_of("file,label\n../sounds/c.wav,yes\n"));
  CHECK(contains(error_of(folder, head("") + split), "sounds/c.wav': "));
}

TEST_CASE("channels stay apart or become their mean") {
  const TempFolder folder;
  put(folder, "train/a.wav", wav_bytes(1000, 2, {16384, -16384, 8192, 0, 0, 16384}));
  const Dataset stereo = loaded(folder, head("") + kTrain);
  CHECK(stereo.inputs()[0].dims == std::vector<int64_t>{2, 3});
  CHECK(sample(stereo, "train", 0) == std::vector<float>{0.5f, 0.25f, 0, -0.5f, 0, 0.5f});
  const Dataset mono = loaded(folder, head("mono = true") + kTrain);
  CHECK(mono.inputs()[0].dims == std::vector<int64_t>{3});
  CHECK(sample(mono, "train", 0) == std::vector<float>{0, 0.125f, 0.25f});
  put(folder, "train/b.wav", wav_bytes(1000, 1, {1, 2, 3}));
  CHECK(contains(error_of(folder, head("") + kTrain), "b.wav': sound of 1 channels, the first one has 2 (give mono = true)"));
  CHECK(contains(error_of(folder, head("features = 'log-mel'\nwindow = 0.002\nhop = 0.001") + kTrain), "need sound of one channel"));
}

TEST_CASE("features of a set have the shape and the text of its preprocessing") {
  const TempFolder folder;
  put(folder, "train/a.wav", wav_bytes(1000, 1, std::vector<int16_t>(200, 1000)));
  const Dataset set = loaded(folder, head("seconds = 0.25\nfeatures = 'mfcc'\nmels = 8\nlow = 0\ncoefficients = 4\nlayout = 'nhwc'") + kTrain);
  CHECK(set.inputs()[0].dims == std::vector<int64_t>{23, 4, 1});
  CHECK(contains(to_text(set.preprocessing()), "layout=nhwc color=rgb dtype=f32 rate=1000 seconds=0.25 features=mfcc window=0.025 "
                                               "hop=0.01 fft=32 mels=8 low=0 high=500 floor=1e-06 coefficients=4"));
  const auto v = sample(set, "train", 0);
  // The last frame is silence: all energies are the floor, which only the first coefficient sees.
  CHECK(v[22 * 4] == doctest::Approx(std::sqrt(8.0) * std::log(1e-6)));
  CHECK(std::abs(v[22 * 4 + 1]) < 1e-5);
  CHECK(v[0] > v[22 * 4] + 1);
}

TEST_CASE("a wrong rate names both, and files that are no sounds are refused") {
  const TempFolder folder;
  put(folder, "train/a.wav", wav_bytes(16000, 1, {1, 2}));
  CHECK(error_of(folder, head("") + kTrain) == "file '" + folder.file("train/a.wav") + "' has 16000 samples per second, rate is 1000");
  CHECK(contains(error_of(folder, "format = 'wav-folder'\n" + kTrain), "format wav-folder needs 'rate' in [preprocess]"));
  CHECK(contains(error_of(folder, head("seconds = 0") + kTrain), "'seconds' must be at least one sample"));
  CHECK(contains(error_of(folder, head("mels = 3") + kTrain), "unknown key 'mels'"));
  CHECK(contains(error_of(folder, head("features = 'chroma'") + kTrain), "unknown features 'chroma' (known: samples, log-mel, mfcc)"));
  put(folder, "train/a.wav", test::bytes_of("RIFF, but no more than that"));
  CHECK(contains(error_of(folder, head("") + kTrain), "file '" + folder.file("train/a.wav") + "': "));
  put(folder, "train/a.wav", wav_bytes(1000, 1, {}));
  CHECK(contains(error_of(folder, head("") + kTrain), "a.wav' is empty"));
  put(folder, "train/x/b.wav", wav_bytes(1000, 1, {1, 2}));
  CHECK(contains(error_of(folder, head("") + kTrain), "has sound 'a.wav' beside class folder 'x'"));
}

TEST_CASE("a damaged sound is refused or read, never worse") {
  const TempFolder folder;
  const Bytes whole = wav_bytes(1000, 1, {1, 2, 3, 4, 5, 6, 7, 8});
  SoundForm form;
  form.rate = 1000;
  form.seconds = 0.006;
  const std::string path = folder.file("a.wav");
  const auto use = [&](const Bytes& bad) {
    test::overwrite(path, bad);
    const auto sound = read_sound(path, form);
    if (sound) CHECK(sound->samples.size() == static_cast<size_t>(sound->channels) * 6);
  };
  test::truncate_everywhere(whole, use);
  test::flip_bits(whole, 20261201, 400, use);
}
#endif

}  // namespace
}  // namespace lathe
