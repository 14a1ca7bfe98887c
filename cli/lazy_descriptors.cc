// Lets the descriptors of protobuf's files wait until somebody asks for one, which for most
// commands nobody does. `muster` alone is linked with this, by the linker's --wrap
// (CMakeLists.txt): what calls the functions of protobuf that are named here gets ours.
//
// protobuf registers each linked file before main(): it parses the file's description, builds an
// index of all names, and throws the parsed form away. That is a third of what a command computes.
// It needs no such order of us, since whoever asks a message for its descriptor registers the
// message's file, and those that it imports, first (AssignDescriptors in
// generated_message_reflection.cc of 3.21). What gets lost is finding a file by name that no
// message was asked of; the CLI looks nothing up by name.
#include <google/protobuf/descriptor.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the linker's.
extern "C" {

// AddDescriptorsRunner::AddDescriptorsRunner(const DescriptorTable*), which runs before main().
void __wrap__ZN6google8protobuf8internal20AddDescriptorsRunnerC1EPKNS1_15DescriptorTableE(
    void*, const void*) {}

// DescriptorPool::generated_pool(). protobuf's own builds the descriptors of descriptor.proto in
// passing, for who reads options by reflection: as much work as the job file's descriptors.
const google::protobuf::DescriptorPool*
__wrap__ZN6google8protobuf14DescriptorPool14generated_poolEv() {
  return google::protobuf::DescriptorPool::internal_generated_pool();
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
