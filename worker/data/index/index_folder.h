// What becomes of the indexes in their folder: they are kept as long as somebody uses them.
//
//   NAME.train.idx, NAME.validation.idx, NAME.test.idx    a data set's; their modification time is
//                                                         that of their last use, to the day
//   NAME.lock                                             held by who makes them, and touched
//                                                         once a second meanwhile
//   NAME.train.idx.*.part                                 being written (index_writer.h)
//
// Used where indexes are opened and made. Any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::worker {

// Since the file's bytes or its time were last changed; zero when it is not there.
absl::Duration AgeOfFile(const std::string& path);

// Sets the file's time to now, at most once a day.
void NoteUseOfIndex(const std::string& path);

// Removes the indexes of other data sets than `kept_name` that nobody has used for 30 days, with
// what belongs to them, and says so in the log; a hundred data sets at most, the next call goes on.
// One that a process of this machine has open (mapped_file.h) stays, and so do all where the disk
// has no locks by which that could be told. What cannot be removed stays, too.
void RemoveUnusedIndexes(const std::string& folder, absl::string_view kept_name);

}  // namespace muster::worker
