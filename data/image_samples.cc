#include "data/image_samples.h"

#include "base/file.h"
#include "data/image.h"

namespace lathe {
namespace {

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

}  // namespace

Result<std::shared_ptr<const Samples>> make_image_samples(std::vector<std::string> files, const Preprocessing& p) {
  auto samples = std::make_shared<ImageSamples>(std::move(files), p);
  LATHE_CHECK_OK(samples->find_size());
  return samples;
}

}  // namespace lathe
