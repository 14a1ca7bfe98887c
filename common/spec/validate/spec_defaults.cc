#include "common/spec/validate/spec_defaults.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/path_text.h"
#include "common/spec/tree/spec_text.h"
#include "common/spec/validate/token_data.h"

namespace muster {
namespace {

// Sets an optional scalar that was not given.
#define MUSTER_DEFAULT(message, field, value) \
  if (!(message).has_##field()) (message).set_##field(value)

#define MUSTER_DEFAULT_DURATION(message, field, value) \
  if (!(message).has_##field()) *(message).mutable_##field() = ToProto(value)

void FillResNet(v1::ResNet& resnet) {
  MUSTER_DEFAULT(resnet, width, 64);
  MUSTER_DEFAULT(resnet, stem, v1::STEM_SMALL);
  MUSTER_DEFAULT(resnet, zero_init_residual, false);
}

struct TransformerSize {
  uint32_t layers, heads, width;
};

void FillVit(v1::Vit& vit) {
  MUSTER_DEFAULT(vit, size, v1::Vit::SIZE_TINY);
  const TransformerSize size = vit.size() == v1::Vit::SIZE_L_16   ? TransformerSize{24, 16, 1024}
                               : vit.size() == v1::Vit::SIZE_B_16 ? TransformerSize{12, 12, 768}
                               : vit.size() == v1::Vit::SIZE_S_16 ? TransformerSize{12, 6, 384}
                                                                  : TransformerSize{12, 3, 192};
  MUSTER_DEFAULT(vit, patch_size, 16);
  MUSTER_DEFAULT(vit, layers, size.layers);
  MUSTER_DEFAULT(vit, heads, size.heads);
  MUSTER_DEFAULT(vit, width, size.width);
  MUSTER_DEFAULT(vit, mlp_width, 4 * vit.width());
  MUSTER_DEFAULT(vit, dropout, 0.0);
  MUSTER_DEFAULT(vit, attention_dropout, 0.0);
}

void FillMae(v1::Mae& mae) {
  MUSTER_DEFAULT(mae, size, v1::Mae::SIZE_TINY);
  const bool large = mae.size() == v1::Mae::SIZE_LARGE, base = mae.size() == v1::Mae::SIZE_BASE;
  const bool small = mae.size() == v1::Mae::SIZE_SMALL;
  const TransformerSize encoder = large   ? TransformerSize{24, 16, 1024}
                                  : base  ? TransformerSize{12, 12, 768}
                                  : small ? TransformerSize{12, 6, 384}
                                          : TransformerSize{12, 3, 192};
  const TransformerSize decoder = large || base ? TransformerSize{8, 16, 512}
                                  : small       ? TransformerSize{4, 8, 256}
                                                : TransformerSize{2, 4, 128};
  MUSTER_DEFAULT(mae, patch_size, 16);
  MUSTER_DEFAULT(mae, layers, encoder.layers);
  MUSTER_DEFAULT(mae, heads, encoder.heads);
  MUSTER_DEFAULT(mae, width, encoder.width);
  MUSTER_DEFAULT(mae, mlp_width, 4 * mae.width());
  MUSTER_DEFAULT(mae, decoder_layers, decoder.layers);
  MUSTER_DEFAULT(mae, decoder_heads, decoder.heads);
  MUSTER_DEFAULT(mae, decoder_width, decoder.width);
  MUSTER_DEFAULT(mae, decoder_mlp_width, 4 * mae.decoder_width());
  MUSTER_DEFAULT(mae, mask_ratio, 0.75);
  MUSTER_DEFAULT(mae, norm_pix_loss, true);
}

void FillModel(v1::Model& model) {
  if (model.has_mlp() && model.mlp().hidden().empty()) {
    model.mutable_mlp()->add_hidden(256);
    model.mutable_mlp()->add_hidden(256);
  }
  if (model.has_resnet18()) FillResNet(*model.mutable_resnet18());
  if (model.has_resnet34()) FillResNet(*model.mutable_resnet34());
  if (model.has_resnet50()) FillResNet(*model.mutable_resnet50());
  if (model.has_resnet101()) FillResNet(*model.mutable_resnet101());
  if (model.has_vit()) FillVit(*model.mutable_vit());
  if (model.has_mae()) FillMae(*model.mutable_mae());
}

// After the data's defaults: what it reads is what it is made for.
void FillGpt2(v1::Gpt2& gpt2, const v1::Data& data) {
  MUSTER_DEFAULT(gpt2, size, v1::GPT2_SIZE_SMALL);
  const bool medium = gpt2.size() == v1::GPT2_SIZE_MEDIUM;
  MUSTER_DEFAULT(gpt2, layers, medium ? 24 : 12);
  MUSTER_DEFAULT(gpt2, heads, medium ? 16 : 12);
  MUSTER_DEFAULT(gpt2, width, medium ? 1024 : 768);
  const std::optional<TokenData> tokens = TokenDataOf(data);
  const bool text = tokens.has_value() && tokens->is_text;
  MUSTER_DEFAULT(gpt2, context, text ? tokens->context : 1024);
  MUSTER_DEFAULT(gpt2, vocabulary, text ? tokens->vocabulary : 50257);
  MUSTER_DEFAULT(gpt2, dropout, 0.0);
}

template <typename Files>
void NormalizePath(Files& files) {
  if (files.has_path()) files.set_path(WithoutTrailingSlashes(files.path()));
}

void FillImages(v1::Images& images) {
  NormalizePath(images);
  MUSTER_DEFAULT(images, size, 224);
  MUSTER_DEFAULT(images, channels, 3);
  const bool colours = images.channels() == 3;
  if (images.mean().empty()) {
    for (const double mean :
         colours ? std::vector<double>{0.485, 0.456, 0.406} : std::vector<double>{0.5})
      images.add_mean(mean);
  }
  if (images.std().empty()) {
    for (const double std :
         colours ? std::vector<double>{0.229, 0.224, 0.225} : std::vector<double>{0.5})
      images.add_std(std);
  }
  MUSTER_DEFAULT(images, center_crop, 0.875);
  MUSTER_DEFAULT(images, upright, false);
  MUSTER_DEFAULT(images, classes, 0);
  MUSTER_DEFAULT(images, broken_samples, 0);
}

// Of v1::Data, or of a source of a mixture.
template <typename Data>
void FillSource(Data& data) {
  if (data.has_synthetic()) {
    v1::Synthetic& synthetic = *data.mutable_synthetic();
    MUSTER_DEFAULT(synthetic, samples, 4096);
    if (synthetic.shape().empty()) {
      for (const uint32_t size : {3, 32, 32}) synthetic.add_shape(size);
    }
    MUSTER_DEFAULT(synthetic, classes, 10);
  }
  if (data.has_digits()) {
    NormalizePath(*data.mutable_digits());
    MUSTER_DEFAULT(*data.mutable_digits(), image_size, 16);
  }
  if (data.has_cifar_bin()) NormalizePath(*data.mutable_cifar_bin());
  if (data.has_numpy()) NormalizePath(*data.mutable_numpy());
  if (data.has_csv()) {
    NormalizePath(*data.mutable_csv());
    MUSTER_DEFAULT(*data.mutable_csv(), regress, false);
    MUSTER_DEFAULT(*data.mutable_csv(), normalize, true);
  }
  if (data.has_text()) {
    NormalizePath(*data.mutable_text());
    MUSTER_DEFAULT(*data.mutable_text(), context, 256);
  }
  if (data.has_tokens()) {
    NormalizePath(*data.mutable_tokens());
    MUSTER_DEFAULT(*data.mutable_tokens(), context, 1024);
    MUSTER_DEFAULT(*data.mutable_tokens(), vocabulary, 50257);
  }
  if (data.has_images()) FillImages(*data.mutable_images());
}

void FillMixture(v1::Mixture& mixture) {
  int number = 0;
  for (v1::MixtureSource& source : *mixture.mutable_sources()) {
    MUSTER_DEFAULT(source, name, absl::StrCat(number++));
    FillSource(source);
  }
}

void FillData(v1::Data& data) {
  FillSource(data);
  if (data.has_mixture()) FillMixture(*data.mutable_mixture());
  MUSTER_DEFAULT(data, subset, 0);
  MUSTER_DEFAULT(data, threads, 0);
  MUSTER_DEFAULT(data, shuffle_window, 0);
}

void FillColorJitter(v1::ColorJitter& jitter) {
  MUSTER_DEFAULT(jitter, brightness, 0.0);
  MUSTER_DEFAULT(jitter, contrast, 0.0);
  MUSTER_DEFAULT(jitter, saturation, 0.0);
  MUSTER_DEFAULT(jitter, hue, 0.0);
  MUSTER_DEFAULT(jitter, chance, 1.0);
}

void FillAugment(v1::Augment& augment) {
  MUSTER_DEFAULT(augment, crop_min_area, 0.0);
  MUSTER_DEFAULT(augment, crop_padding, 0);
  MUSTER_DEFAULT(augment, flip, 0.0);
  MUSTER_DEFAULT(augment, vertical_flip, 0.0);
  MUSTER_DEFAULT(augment, rand_augment_operations, 0);
  MUSTER_DEFAULT(augment, rand_augment_magnitude, 9.0);
  MUSTER_DEFAULT(augment, trivial_augment, false);
  MUSTER_DEFAULT(augment, auto_augment, v1::AUTO_AUGMENT_NONE);
  FillColorJitter(*augment.mutable_color_jitter());
  MUSTER_DEFAULT(augment, grey, 0.0);
  MUSTER_DEFAULT(augment, blur, 0.0);
  MUSTER_DEFAULT(augment, erase, 0.0);
  MUSTER_DEFAULT(augment, erase_fill, v1::ERASE_FILL_HALF);
  MUSTER_DEFAULT(augment, mixup, 0.0);
  MUSTER_DEFAULT(augment, cutmix, 0.0);
}

double DefaultWeightDecay(v1::Optimizer::Name name) {
  switch (name) {
    case v1::Optimizer::NAME_SGD:
    case v1::Optimizer::NAME_ADAM:
      return 0;
    case v1::Optimizer::NAME_LARS:
      return 0.0001;
    default:
      return 0.01;
  }
}

void FillOptimizer(v1::Optimizer& optimizer) {
  MUSTER_DEFAULT(optimizer, name, v1::Optimizer::NAME_ADAMW);
  const v1::Optimizer::Name name = optimizer.name();
  if (optimizer.has_base_lr()) {
    MUSTER_DEFAULT(optimizer, base_batch, 256);
  } else {
    MUSTER_DEFAULT(optimizer, lr, 0.001);
  }
  MUSTER_DEFAULT(optimizer, weight_decay, DefaultWeightDecay(name));
  MUSTER_DEFAULT(optimizer, layer_decay, 1.0);
  MUSTER_DEFAULT(optimizer, decay_norms_and_biases, false);
  if (name == v1::Optimizer::NAME_SGD || name == v1::Optimizer::NAME_LARS) {
    MUSTER_DEFAULT(optimizer, momentum, 0.9);
  } else {
    MUSTER_DEFAULT(optimizer, beta1, 0.9);
    MUSTER_DEFAULT(optimizer, beta2, name == v1::Optimizer::NAME_LION ? 0.99 : 0.999);
    if (name != v1::Optimizer::NAME_LION)
      MUSTER_DEFAULT(optimizer, eps, name == v1::Optimizer::NAME_LAMB ? 1e-6 : 1e-8);
  }
  if (name == v1::Optimizer::NAME_SGD) MUSTER_DEFAULT(optimizer, nesterov, false);
  if (name == v1::Optimizer::NAME_LARS) MUSTER_DEFAULT(optimizer, trust_coefficient, 0.001);
  for (v1::ParameterGroup& group : *optimizer.mutable_groups()) {
    MUSTER_DEFAULT(group, frozen, false);
    if (group.frozen()) continue;
    MUSTER_DEFAULT(group, lr_scale, 1.0);
    MUSTER_DEFAULT(group, weight_decay, optimizer.weight_decay());
  }
}

void FillSchedule(v1::Schedule& schedule) {
  MUSTER_DEFAULT(schedule, name, v1::Schedule::NAME_COSINE);
  const bool one_cycle = schedule.name() == v1::Schedule::NAME_ONE_CYCLE;
  MUSTER_DEFAULT(schedule, warmup_steps, 0);
  MUSTER_DEFAULT(schedule, final_fraction, one_cycle ? 4e-6 : 0.0);
  MUSTER_DEFAULT(schedule, start_fraction, one_cycle ? 0.04 : 0.0);
  if (one_cycle) MUSTER_DEFAULT(schedule, rise_fraction, 0.3);
  if (schedule.name() == v1::Schedule::NAME_STEP) MUSTER_DEFAULT(schedule, gamma, 0.1);
  if (schedule.name() == v1::Schedule::NAME_POLYNOMIAL) MUSTER_DEFAULT(schedule, power, 1.0);
}

void FillParallel(v1::Parallel& parallel) {
  MUSTER_DEFAULT(parallel, sync_batch_norm, false);
  MUSTER_DEFAULT(parallel, compression, v1::COMPRESSION_NONE);
  MUSTER_DEFAULT(parallel, static_graph, false);
  MUSTER_DEFAULT(parallel, transport, v1::TRANSPORT_AUTO);
}

// After the model's and the data's defaults.
void FillDistill(v1::Train& train) {
  v1::Distill& distill = *train.mutable_distill();
  if (!distill.has_model()) *distill.mutable_model() = train.model();
  FillModel(*distill.mutable_model());
  if (distill.model().has_gpt2()) FillGpt2(*distill.mutable_model()->mutable_gpt2(), train.data());
  MUSTER_DEFAULT(distill, temperature, 4.0);
  MUSTER_DEFAULT(distill, alpha, 0.5);
}

void FillTrain(v1::Train& train) {
  if (train.has_model()) FillModel(*train.mutable_model());
  if (train.has_data()) FillData(*train.mutable_data());
  if (train.model().has_gpt2()) FillGpt2(*train.mutable_model()->mutable_gpt2(), train.data());
  FillOptimizer(*train.mutable_optimizer());
  FillSchedule(*train.mutable_schedule());
  MUSTER_DEFAULT(train, precision, v1::PRECISION_FP32);
  MUSTER_DEFAULT(train, clip_norm, 0.0);
  MUSTER_DEFAULT(train, label_smoothing, 0.0);
  MUSTER_DEFAULT(train, validate_every_epochs, 1);
  MUSTER_DEFAULT(train, validate_every_steps, 0);
  MUSTER_DEFAULT(train, seed, 0);
  MUSTER_DEFAULT(train, threads_per_rank, 1);
  MUSTER_DEFAULT(train, deterministic, false);
  MUSTER_DEFAULT(train, report_every_steps, 10);
  FillAugment(*train.mutable_augment());
  MUSTER_DEFAULT(train, validate_samples, 0);
  MUSTER_DEFAULT(train, validate_before_save, false);
  MUSTER_DEFAULT(train, accumulate, 1);
  MUSTER_DEFAULT(train, clip_value, 0.0);
  MUSTER_DEFAULT(train, loss, v1::LOSS_NAME_CROSS_ENTROPY);
  MUSTER_DEFAULT(*train.mutable_memory(), checkpoint_blocks, false);
  if (train.precision() == v1::PRECISION_FP16) {
    v1::LossScale& scale = *train.mutable_loss_scale();
    MUSTER_DEFAULT(scale, initial, 65536.0);
    MUSTER_DEFAULT(scale, growth_interval, 2000);
    MUSTER_DEFAULT(scale, max_skips, 25);
  }
  if (train.has_ema()) {
    MUSTER_DEFAULT(*train.mutable_ema(), decay, 0.9999);
    MUSTER_DEFAULT(*train.mutable_ema(), every_steps, 1);
    MUSTER_DEFAULT(*train.mutable_ema(), warmup, true);
  }
  if (train.has_weights()) MUSTER_DEFAULT(*train.mutable_weights(), strict, false);
  if (train.has_distill()) FillDistill(train);
  if (train.has_prune()) {
    v1::Prune& prune = *train.mutable_prune();
    MUSTER_DEFAULT(prune, begin_step, 0);
    MUSTER_DEFAULT(prune, every_steps, 100);
    MUSTER_DEFAULT(prune, pattern, "*.weight");
    MUSTER_DEFAULT(prune, scope, v1::PRUNE_SCOPE_TENSOR);
  }
  if (train.has_artifacts()) {
    MUSTER_DEFAULT(*train.mutable_artifacts(), tensorboard, false);
    MUSTER_DEFAULT(*train.mutable_artifacts(), confusion, false);
    MUSTER_DEFAULT(*train.mutable_artifacts(), reconstructions_every_steps, 0);
  }
  FillParallel(*train.mutable_parallel());
}

}  // namespace

void FillDefaults(v1::JobSpec& spec) {
  MUSTER_DEFAULT(spec, project, "default");

  v1::Ranks& ranks = *spec.mutable_ranks();
  MUSTER_DEFAULT(ranks, min, 1);
  MUSTER_DEFAULT(ranks, max, ranks.min());
  MUSTER_DEFAULT(*spec.mutable_per_rank(), gpus, 0);

  v1::Placement& placement = *spec.mutable_placement();
  if (placement.pools().empty()) {
    MUSTER_DEFAULT(placement, pool, "default");
  }
  MUSTER_DEFAULT(placement, wait_for_capacity, false);

  v1::Checkpoint& checkpoint = *spec.mutable_checkpoint();
  MUSTER_DEFAULT(checkpoint, every_steps, 0);
  MUSTER_DEFAULT(checkpoint, every_epochs, 1);
  MUSTER_DEFAULT(checkpoint, keep_last, 3);
  MUSTER_DEFAULT_DURATION(checkpoint, every, absl::ZeroDuration());

  v1::Scheduling& scheduling = *spec.mutable_scheduling();
  MUSTER_DEFAULT(scheduling, priority_class, v1::PRIORITY_CLASS_NORMAL);
  MUSTER_DEFAULT(scheduling, priority, 0);
  MUSTER_DEFAULT(scheduling, preemptible, true);
  MUSTER_DEFAULT(scheduling, hold, false);

  v1::Restart& restart = *spec.mutable_restart();
  MUSTER_DEFAULT(restart, max_restarts, 5);
  MUSTER_DEFAULT_DURATION(restart, backoff, absl::Seconds(1));
  MUSTER_DEFAULT_DURATION(restart, max_backoff,
                          std::max(absl::Minutes(1), FromProto(restart.backoff())));
  MUSTER_DEFAULT_DURATION(restart, controller_lost_timeout, absl::Hours(1));
  MUSTER_DEFAULT_DURATION(restart, progress_timeout,
                          spec.has_command() ? absl::ZeroDuration() : absl::Minutes(10));

  if (spec.has_command() && spec.command().has_upload()) {
    MUSTER_DEFAULT(*spec.mutable_command(), workdir, ".");
  }
  if (spec.has_train()) FillTrain(*spec.mutable_train());
}

}  // namespace muster
