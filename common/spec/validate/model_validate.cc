#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/token_data.h"
#include "common/spec/validate/train_validate.h"

namespace muster {
namespace {

class ModelValidator : public SpecChecks {
 public:
  // `path` is the model's own.
  ModelValidator(std::vector<SpecFault>& faults, std::string path)
      : SpecChecks(faults), path_(std::move(path)) {}

  void Check(const v1::Model& model, const v1::Data& data) {
    switch (model.kind_case()) {
      case v1::Model::KIND_NOT_SET:
        Fault(path_,
              absl::StrCat("is required: one of ", MembersOf(*v1::Model::descriptor(), "kind")));
        break;
      case v1::Model::kMlp:
        Check(model.mlp());
        break;
      case v1::Model::kResnet18:
        Check(".resnet18", model.resnet18());
        break;
      case v1::Model::kResnet34:
        Check(".resnet34", model.resnet34());
        break;
      case v1::Model::kResnet50:
        Check(".resnet50", model.resnet50());
        break;
      case v1::Model::kResnet101:
        Check(".resnet101", model.resnet101());
        break;
      case v1::Model::kVit:
        Check(model.vit(), data);
        break;
      case v1::Model::kMae:
        Check(model.mae(), data);
        break;
      case v1::Model::kGpt2:
        Check(model.gpt2(), data);
        break;
      case v1::Model::kTorchscript:
        Given(path_ + ".torchscript.path", "the file that torch.jit saved",
              model.torchscript().has_path(), model.torchscript().path());
        break;
      case v1::Model::kPlugin:
        Given(path_ + ".plugin.path", "the shared library", model.plugin().has_path(),
              model.plugin().path());
        if (model.plugin().has_model()) Text(path_ + ".plugin.model", model.plugin().model());
        Pairs(path_ + ".plugin.options", model.plugin().options());
        break;
    }
  }

 private:
  void Check(absl::string_view kind, const v1::ResNet& resnet) {
    Whole(absl::StrCat(path_, kind, ".width"), resnet.width(), 1, 1024);
  }

  void Check(const v1::Vit& vit, const v1::Data& data) {
    const std::string path = path_ + ".vit.";
    CheckTransformer(path, "", {vit.layers(), vit.heads(), vit.width(), vit.mlp_width()});
    CheckPatches(path + "patch_size", vit.patch_size(), data);
    Below(path + "dropout", vit.dropout(), 0, 1);
    Below(path + "attention_dropout", vit.attention_dropout(), 0, 1);
  }

  void Check(const v1::Mae& mae, const v1::Data& data) {
    const std::string path = path_ + ".mae.";
    CheckTransformer(path, "", {mae.layers(), mae.heads(), mae.width(), mae.mlp_width()});
    CheckTransformer(
        path, "decoder_",
        {mae.decoder_layers(), mae.decoder_heads(), mae.decoder_width(), mae.decoder_mlp_width()});
    // A position is a sine and a cosine each of its row and its column.
    CheckMultiple(path + "width", mae.width(), 4, "4");
    CheckMultiple(path + "decoder_width", mae.decoder_width(), 4, "4");
    CheckPatches(path + "patch_size", mae.patch_size(), data);
    if (!(mae.mask_ratio() > 0 && mae.mask_ratio() < 1)) {
      Fault(path + "mask_ratio",
            absl::StrCat("must be above 0 and below 1; got ", mae.mask_ratio()));
    }
  }

  struct Transformer {
    uint32_t layers, heads, width, mlp_width;
  };

  void CheckTransformer(const std::string& path, const std::string& prefix,
                        const Transformer& size) {
    Whole(absl::StrCat(path, prefix, "layers"), size.layers, 1, 1024);
    Whole(absl::StrCat(path, prefix, "heads"), size.heads, 1, 1024);
    Whole(absl::StrCat(path, prefix, "width"), size.width, 1, 65536);
    Whole(absl::StrCat(path, prefix, "mlp_width"), size.mlp_width, 1, 4 * 65536);
    CheckMultiple(absl::StrCat(path, prefix, "width"), size.width, size.heads,
                  absl::StrCat(prefix, "heads, which is ", size.heads));
  }

  void CheckMultiple(const std::string& path, uint32_t value, uint32_t of,
                     const std::string& of_text) {
    if (of > 0 && value % of != 0) {
      Fault(path, absl::StrCat("must be a multiple of ", of_text, "; got ", value));
    }
  }

  // Of pictures whose size the spec itself tells.
  void CheckPatches(const std::string& path, uint32_t patch_size, const v1::Data& data) {
    Whole(path, patch_size, 1, 1024);
    std::vector<uint32_t> sides;
    if (data.has_digits()) sides = {data.digits().image_size()};
    if (data.synthetic().shape_size() == 3) {
      sides = {data.synthetic().shape(1), data.synthetic().shape(2)};
    }
    for (const uint32_t side : sides) {
      if (patch_size == 0 || side % patch_size == 0) continue;
      Fault(path, absl::StrCat("must divide the pictures' height and width; ", patch_size,
                               " does not divide ", side));
      return;
    }
  }

  void Check(const v1::Mlp& mlp) {
    if (mlp.hidden_size() > 64) {
      Fault(path_ + ".mlp.hidden",
            absl::StrCat("must have at most 64 layers; got ", mlp.hidden_size()));
    }
    for (int i = 0; i < mlp.hidden_size(); ++i) {
      Whole(absl::StrCat(path_, ".mlp.hidden[", i, "]"), mlp.hidden(i), 1, 65536);
    }
  }

  void Check(const v1::Gpt2& gpt2, const v1::Data& data) {
    const std::string path = path_ + ".gpt2.";
    Whole(path + "layers", gpt2.layers(), 1, 1024);
    Whole(path + "heads", gpt2.heads(), 1, 1024);
    Whole(path + "width", gpt2.width(), 1, 65536);
    if (gpt2.heads() > 0 && gpt2.width() % gpt2.heads() != 0) {
      Fault(path + "width", absl::StrCat("must be a multiple of heads, which is ", gpt2.heads(),
                                         "; got ", gpt2.width()));
    }
    Whole(path + "context", gpt2.context(), 1, kMostContext);
    Whole(path + "vocabulary", gpt2.vocabulary(), 2, kMostVocabulary);
    Below(path + "dropout", gpt2.dropout(), 0, 1);
    const std::optional<TokenData> tokens = TokenDataOf(data);
    if (!tokens.has_value()) {
      if (data.source_case() != v1::Data::SOURCE_NOT_SET)
        Fault(path_ + ".gpt2", "needs train.data.text or train.data.tokens");
      return;
    }
    AtLeastTheDatas(path + "context", gpt2.context(), tokens->context);
    AtLeastTheDatas(path + "vocabulary", gpt2.vocabulary(), tokens->vocabulary);
  }

  // 0 is out of bounds already.
  void AtLeastTheDatas(const std::string& path, uint64_t value, uint64_t least) {
    if (value < least && value > 0) {
      Fault(path, absl::StrCat("must be at least the data's, which is ", least, "; got ", value));
    }
  }

  const std::string path_;
};

}  // namespace

void ValidateModel(const v1::Train& train, std::vector<SpecFault>& faults) {
  ModelValidator(faults, "train.model").Check(train.model(), train.data());
  if (train.has_distill())
    ModelValidator(faults, "train.distill.model").Check(train.distill().model(), train.data());
}

}  // namespace muster
