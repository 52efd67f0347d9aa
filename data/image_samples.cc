#include "data/image_samples.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/cancel.h"
#include "base/file.h"
#include "data/image.h"
#include "data/tensor.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;

constexpr uint64_t kMaxImageFileBytes = uint64_t{256} << 20;

class ImageSamples : public Samples {
 public:
  ImageSamples(std::vector<std::string> files, const Preprocessing& p)
      : files_(std::move(files)),
        channels_(p.color == ColorOrder::kGray ? 1 : 3),
        resize_height_(p.height),
        resize_width_(p.width) {}

  // Without resize all pictures are as large as the first; each is checked when it is decoded.
  Result<void> find_size() {
    int64_t height = resize_height_, width = resize_width_;
    if (height == 0 && !files_.empty()) {
      LATHE_TRY(const Image first, decode(0));
      height = first.height;
      width = first.width;
    }
    form_ = {DType::kU8, RawAxes::kHwc, {height, width, channels_}};
    return {};
  }

  uint64_t count() const override { return files_.size(); }

  Result<const std::byte*> raw(uint64_t i, std::vector<std::byte>* scratch) const override {
    LATHE_TRY(const Image image, decode(i));
    if (image.height != form_.dims[0] || image.width != form_.dims[1])
      return fail(Code::kInvalidArgument, "picture of " + std::to_string(image.width) + "x" + std::to_string(image.height) +
                                              " pixels, the first one has " + std::to_string(form_.dims[1]) + "x" +
                                              std::to_string(form_.dims[0]) + " (give resize = [height, width])");
    const auto bytes = std::as_bytes(std::span(image.pixels));
    scratch->assign(bytes.begin(), bytes.end());
    return scratch->data();
  }

  // Of the file: the same picture in two formats counts as two.
  Result<Hash128> hash(uint64_t i) const override {
    LATHE_TRY(const auto bytes, read_file(files_[i], kMaxImageFileBytes));
    return hash128(bytes);
  }

  std::string where(uint64_t i) const override { return "file '" + files_[i] + "'"; }

 private:
  Result<Image> decode(uint64_t i) const {
    LATHE_TRY(const auto bytes, read_file(files_[i], kMaxImageFileBytes));
    LATHE_TRY(Image image, decode_image(bytes, channels_, "file '" + files_[i] + "'"));
    if (resize_height_ == 0) return image;
    return resize_bilinear(image, resize_height_, resize_width_);
  }

  std::vector<std::string> files_;
  int32_t channels_, resize_height_, resize_width_;
};

struct Listing {
  std::vector<std::string> pictures, folders;  // names, sorted
};

Result<Listing> list(const std::string& path) {
  Listing out;
  std::error_code ec;
  for (stdfs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unreadable;
    if (it->is_directory(unreadable)) {
      out.folders.push_back(name);
    } else if (has_image_extension(name)) {
      out.pictures.push_back(name);
    }
  }
  if (ec) return fail(Code::kIo, "cannot read folder '" + path + "': " + errno_text(ec.value()));
  std::sort(out.pictures.begin(), out.pictures.end());
  std::sort(out.folders.begin(), out.folders.end());
  return out;
}

Result<void> add_root(const std::string& root, const std::vector<std::string>& classes, std::vector<std::string>* files,
                      std::vector<int32_t>* labels) {
  LATHE_TRY(const Listing top, list(root));
  if (!top.folders.empty() && !top.pictures.empty())
    return fail(Code::kInvalidArgument,
                "folder '" + root + "' has picture '" + top.pictures[0] + "' beside class folder '" + top.folders[0] + "'");
  for (const std::string& name : top.pictures) files->push_back(root + "/" + name);
  for (const std::string& folder : top.folders) {
    LATHE_CHECK_OK(check_cancelled());
    const auto it = std::find(classes.begin(), classes.end(), folder);
    if (it == classes.end()) return fail(Code::kInvalidArgument, "folder '" + root + "/" + folder + "' is no class of the set");
    LATHE_TRY(const Listing inside, list(root + "/" + folder));
    for (const std::string& name : inside.pictures) files->push_back(root + "/" + folder + "/" + name);
    labels->resize(files->size(), static_cast<int32_t>(it - classes.begin()));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> class_folders(const std::string& path) {
  LATHE_TRY(Listing top, list(path));
  return std::move(top.folders);
}

Result<LoadedSamples> load_image_folders(const std::vector<std::string>& roots, const Preprocessing& p,
                                         const std::vector<std::string>& classes) {
  LoadedSamples out;
  std::vector<std::string> files;
  for (const std::string& root : roots) LATHE_CHECK_OK(add_root(root, classes, &files, &out.labels));
  if (!out.labels.empty() && out.labels.size() != files.size())
    return fail(Code::kInvalidArgument,
                "folder '" + roots[0] + "' and those joined to it have pictures with and without class folders");
  auto samples = std::make_shared<ImageSamples>(std::move(files), p);
  LATHE_CHECK_OK(samples->find_size());
  out.inputs.push_back(std::move(samples));
  return out;
}

}  // namespace lathe
