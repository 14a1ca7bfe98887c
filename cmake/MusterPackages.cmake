# What is installed where, in components: `controller`, `worker` and `cli`, of which CPack makes Debian packages, and `wheel`,
# of which scripts/release makes a Python wheel. The paths begin at the root: cmake --install build/release --prefix /.
#
# All programs lie in one folder, usr/lib/muster/bin or muster/bin, since each looks for the others beside itself; usr/bin
# has links. There muster-trainer is the launcher, and the program that needs torch lies in trainer/ beside bin/.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # scripts/release builds what it packs, and no test

# muster_install(COMPONENT PROGRAM...)   into the component's package and into the wheel, with links for people
function(muster_install component)
  foreach(program ${ARGN})
    install(TARGETS ${program} RUNTIME DESTINATION usr/lib/muster/bin COMPONENT ${component})
    install(TARGETS ${program} RUNTIME DESTINATION muster/bin COMPONENT wheel EXCLUDE_FROM_ALL)
    get_target_property(name ${program} OUTPUT_NAME)
    if(NOT name)
      set(name ${program})
    endif()
    if(NOT program STREQUAL muster-init)  # which containers alone run
      file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/links)
      file(CREATE_LINK ../lib/muster/bin/${name} ${CMAKE_BINARY_DIR}/links/${name} SYMBOLIC)
      install(FILES ${CMAKE_BINARY_DIR}/links/${name} DESTINATION usr/bin COMPONENT ${component})
    endif()
  endforeach()
endfunction()

muster_install(controller musterd)
muster_install(worker muster-worker muster-data muster-init)
muster_install(cli muster)
if(MUSTER_TRAINER)
  muster_install(worker muster-trainer-launcher)
  install(TARGETS muster-trainer RUNTIME DESTINATION usr/lib/muster/trainer COMPONENT worker)
  install(TARGETS muster-trainer RUNTIME DESTINATION muster/trainer COMPONENT wheel EXCLUDE_FROM_ALL)
endif()

install(FILES deploy/systemd/musterd.service DESTINATION lib/systemd/system COMPONENT controller)
install(FILES deploy/systemd/musterd.yaml DESTINATION etc/muster COMPONENT controller)
install(FILES deploy/systemd/muster-worker.service DESTINATION lib/systemd/system COMPONENT worker)
install(FILES deploy/systemd/muster-worker.yaml DESTINATION etc/muster COMPONENT worker)
install(FILES deploy/debian/torch DESTINATION etc/muster COMPONENT worker)
foreach(component controller worker cli)
  install(FILES CHANGELOG.md docs/DEPENDENCIES.md docs/INSTALL.md DESTINATION usr/share/doc/muster-${component} COMPONENT ${component})
endforeach()

set(MUSTER_WHEEL_VERSION ${PROJECT_VERSION})
if(MUSTER_TRAINER AND LibTorch_CUDA)
  string(APPEND MUSTER_WHEEL_VERSION +cuda)
endif()

# ---- share/muster: for what watches a Muster (docs/OPERATIONS.md), and job files that need no data ----

# pip puts what the wheel has below data/ into the virtual environment.
set(share_of_wheel muster-${MUSTER_WHEEL_VERSION}.data/data/share/muster)
#   muster_share(COMPONENT FOLDER PATH...)   files or folders, into share/muster/FOLDER of that package and of the wheel
function(muster_share component folder)
  foreach(path ${ARGN})
    set(kind FILES)
    if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/${path})
      set(kind DIRECTORY)
    endif()
    set(except "")
    if(path STREQUAL deploy/prometheus/rules)
      set(except PATTERN tests EXCLUDE)  # promtool's
    endif()
    install(${kind} ${path} DESTINATION usr/share/muster/${folder} COMPONENT ${component} ${except})
    install(${kind} ${path} DESTINATION ${share_of_wheel}/${folder} COMPONENT wheel EXCLUDE_FROM_ALL ${except})
  endforeach()
endfunction()

muster_share(controller prometheus deploy/prometheus/prometheus.yml deploy/prometheus/rules)
muster_share(controller grafana deploy/grafana/boards deploy/grafana/provisioning)
muster_share(cli examples configs/mlp-synthetic.yaml configs/resnet18-synthetic.yaml)

# ---- The wheel's own files ----

if(MUSTER_TRAINER)
  string(REGEX REPLACE "[+].*" "" MUSTER_TORCH_RELEASE ${LibTorch_VERSION})
  set(wheel ${CMAKE_BINARY_DIR}/wheel)
  foreach(file METADATA WHEEL)
    configure_file(deploy/wheel/${file}.in ${wheel}/${file} @ONLY)
  endforeach()
  install(FILES ${wheel}/METADATA ${wheel}/WHEEL deploy/wheel/entry_points.txt
    DESTINATION muster-${MUSTER_WHEEL_VERSION}.dist-info COMPONENT wheel EXCLUDE_FROM_ALL)
  install(FILES docs/DEPENDENCIES.md DESTINATION muster-${MUSTER_WHEEL_VERSION}.dist-info/licenses COMPONENT wheel EXCLUDE_FROM_ALL)
  # Its Python code is put there by scripts/python-package.
endif()

# ---- Debian packages ----

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL controller worker cli)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_PACKAGE_CONTACT "The Muster maintainers <maintainers@muster.invalid>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Folders that packages own must not depend on the umask of who makes them.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
if(MUSTER_TRAINER)
  # torch is no Debian package: the launcher finds it.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LibTorch_RPATH})
endif()

set(CPACK_DEBIAN_CONTROLLER_PACKAGE_NAME muster-controller)
set(CPACK_DEBIAN_CONTROLLER_DESCRIPTION "controller of Muster, which trains models on machines that come and go
musterd queues jobs, places each as a gang of ranks on worker machines, and
knows every checkpoint and metric. The service is installed, not started.")
set(CPACK_DEBIAN_CONTROLLER_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_CONTROLLER_PACKAGE_SUGGESTS "muster-cli, prometheus")

set(CPACK_DEBIAN_WORKER_PACKAGE_NAME muster-worker)
set(CPACK_DEBIAN_WORKER_DESCRIPTION "worker of Muster: the agent and the trainer
muster-worker runs the ranks that the controller gives to this machine. The
trainer needs torch, which /etc/muster/torch names. The service is installed,
not started.")
set(CPACK_DEBIAN_WORKER_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_WORKER_PACKAGE_RECOMMENDS "python3-venv, ca-certificates")
set(CPACK_DEBIAN_WORKER_PACKAGE_SUGGESTS podman)

set(CPACK_DEBIAN_CLI_PACKAGE_NAME muster-cli)
set(CPACK_DEBIAN_CLI_DESCRIPTION "command line of Muster
muster submits jobs to a Muster, and shows them. With the packages of the
controller and the worker it runs a whole one on this machine.")
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS "muster-worker, muster-controller")

foreach(component CONTROLLER WORKER)
  string(TOLOWER ${component} folder)
  foreach(file conffiles postinst prerm postrm)
    list(APPEND CPACK_DEBIAN_${component}_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/${folder}/${file})
  endforeach()
endforeach()
include(CPack)
