# The Debian package of the server, by CPack: ./dev package. The files of component `server`, and what Debian wants of every package:
# a configuration file under /etc that upgrades respect, manual pages, a changelog, the licence, and scripts for installation and removal.
find_program(GZIP gzip REQUIRED)
string(TIMESTAMP release_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(debian ${CMAKE_BINARY_DIR}/debian)
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${debian}/changelog @ONLY)
function(compressed source destination name)
  execute_process(COMMAND ${GZIP} -9nc ${source} OUTPUT_FILE ${debian}/${name}.gz COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${debian}/${name}.gz DESTINATION ${destination} COMPONENT debian)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
endfunction()
compressed(${debian}/changelog share/doc/ebbtide changelog)
compressed(${CMAKE_SOURCE_DIR}/CHANGELOG.md share/doc/ebbtide CHANGELOG.md)
compressed(${CMAKE_CURRENT_LIST_DIR}/man/ebbtide-server.8 share/man/man8 ebbtide-server.8)
foreach(tool inspect import export)
  compressed(${CMAKE_CURRENT_LIST_DIR}/man/ebbtide-${tool}.1 share/man/man1 ebbtide-${tool}.1)
endforeach()
install(FILES ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION share/doc/ebbtide COMPONENT debian)
install(FILES ${CMAKE_SOURCE_DIR}/config/ebbtide.yaml DESTINATION /etc/ebbtide COMPONENT debian)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/deploy/prometheus DESTINATION share/doc/ebbtide/examples COMPONENT debian)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/deploy/grafana/dashboards DESTINATION share/doc/ebbtide/examples/grafana COMPONENT debian)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ebbtide)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Ebbtide maintainers <maintainers@ebbtide.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "key-value server that purges deleted data by a deadline")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Ebbtide speaks the Redis protocol and keeps its data on disk, in a
log-structured merge tree. Every delete has a deadline: by then, no file of
the data directory holds the deleted key or a byte of its value.

This package has the server, its systemd service, ebbtide-inspect, which
shows, verifies, backs up and repairs data directories, ebbtide-import, which
brings keys of Redis's files and servers, and ebbtide-export, the way back.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL server debian)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS redis-tools)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    "${CMAKE_CURRENT_LIST_DIR}/postinst;${CMAKE_CURRENT_LIST_DIR}/prerm;${CMAKE_CURRENT_LIST_DIR}/postrm;${CMAKE_CURRENT_LIST_DIR}/conffiles")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
include(CPack)
