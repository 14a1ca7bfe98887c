// The learning rate as a pure function of the step: what a resume needs is the step alone.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::worker {

enum class ScheduleName { kConstant, kCosine, kStep, kPolynomial, kOneCycle };

struct ScheduleConfig {
  ScheduleName name = ScheduleName::kCosine;
  double peak = 0.001;
  int64_t warmup_steps = 0;   // none for kOneCycle
  double final_fraction = 0;  // of the peak, where kCosine, kPolynomial and kOneCycle end
  int64_t total_steps = 0;
  double start_fraction = 0;        // of the peak, where warm-up or kOneCycle's rise begins
  std::vector<int64_t> milestones;  // kStep: rising
  double gamma = 0.1;               // kStep
  double power = 1;                 // kPolynomial
  double rise_fraction = 0.3;       // kOneCycle: of total_steps, above 0 and below 1
};

// The rate of step `step` (0-based). During warm-up it rises linearly and reaches the peak at the
// last warm-up step: peak * (start + (1 - start) * (step + 1) / warmup_steps), so that no step is
// wasted at zero. Then, with p the part of the steps after warm-up that is done, from 0 to 1:
//   kConstant    the peak
//   kCosine      half a cosine to the final fraction (Loshchilov and Hutter 2017, no restarts)
//   kStep        the peak times gamma for each milestone that `step` has reached
//   kPolynomial  the peak times final + (1 - final) (1 - p)^power
//   kOneCycle    half a cosine up to the peak, half a cosine down (Smith and Topin 2018; as
//                torch's OneCycleLR, whose momentum cycle it leaves out)
double LearningRate(const ScheduleConfig& config, int64_t step);

}  // namespace muster::worker
