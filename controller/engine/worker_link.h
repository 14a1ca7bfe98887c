// The way to one connected agent. The API implements it on top of the Control stream.
#pragma once

#include "absl/status/status.h"
#include "controller/model/types/assignment_types.h"

namespace muster::controller {

class WorkerLink {
 public:
  virtual ~WorkerLink() = default;

  // Queues the assignment on the stream, in the order of the calls. Never blocks and never calls
  // back into the engine on the same thread. When the stream is gone it does nothing: the
  // assignment is repeated on the next one.
  virtual void Send(const Assignment& assignment) = 0;

  // Ends the stream with that status: the worker was declared lost, or another incarnation took its
  // name. The API posts WorkerDisconnected afterwards as for any other end of the stream.
  virtual void Close(const absl::Status& status) = 0;
};

}  // namespace muster::controller
