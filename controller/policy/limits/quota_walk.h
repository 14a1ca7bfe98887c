// One project's bounds on slots in one walk through the queue, and the first jobs over them. Pure;
// not thread-safe.
//
// A job that a bound holds back holds back the later jobs of its project, or of its user where the
// bound is the user's. So does one that has passed and for which slots are reserved until a
// time that can be told: what it needs is reserved for it within the bounds, too (Reserve). One
// that is over a bound even alone (the quota was lowered) holds up nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "controller/model/snapshot.h"
#include "controller/policy/limits/quota.h"

namespace muster::controller {

class QuotaWalk {
 public:
  // The snapshot outlives it.
  QuotaWalk(const Snapshot& snapshot, const std::string& project)
      : name_(project),
        project_(snapshot.FindProject(project)),
        use_(snapshot.UseOf(project)),
        with_reserved_(use_) {}

  struct Decision {
    bool held_back = false;
    bool even_alone = false;          // whoever leaves
    std::optional<std::string> over;  // which bound; none: it waits only behind an earlier job
    bool is_first = false;            // no earlier job of its project or user is held back
  };
  // Whether a quota holds back the job, which needs `slots`, as things stand. If so, those behind
  // it do not slip past.
  Decision Pass(uint64_t job_id, const std::string& user, uint32_t slots);

  // The user got them.
  void Take(const std::string& user, uint32_t slots);

  // Whether slots may be reserved for a job of the user that starts later, beside those that are
  // held and those that are reserved for others already: no more than may be held at once.
  bool MayReserve(const std::string& user, uint32_t slots) const;
  void Reserve(const std::string& user, uint32_t slots);

  // What is held, and what was taken.
  const ProjectUse& use() const { return use_; }
  // That, and what is reserved for jobs that start later.
  const ProjectUse& with_reserved() const { return with_reserved_; }
  // As CountSlotsOver.
  SlotsOver CountOver(const std::string& user, uint32_t slots) const {
    return CountSlotsOver(HolderOf(user), use_, slots);
  }
  // The job that nobody of that user slips past; 0: none.
  uint64_t FullBy(const std::string& user) const;
  // The one that nobody of the whole project slips past; 0: none.
  uint64_t full_by() const { return full_by_; }

 private:
  QuotaHolder HolderOf(const std::string& user) const {
    return {.project = project_, .project_name = name_, .user = user};
  }

  const std::string name_;
  const Project* const project_;  // null: nothing is bounded
  ProjectUse use_;
  ProjectUse with_reserved_;  // that, and what is reserved
  uint64_t full_by_ = 0;
  std::unordered_map<std::string, uint64_t> full_users_;
};

}  // namespace muster::controller
