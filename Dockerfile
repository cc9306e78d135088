# Dockerfile - PostgreSQL's official image with shardfdw, for coordinators; nodes are that image as it is
#
#   docker build -t shardfdw .                                  PostgreSQL 18
#   docker build --build-arg PG_MAJOR=17 -t shardfdw:17 .       15 to 18
#   docker build --target extension -t shardfdw-extension .     the extension's files alone, for image volumes
#
# compose.yaml starts a coordinator and two nodes. scripts/container runs the steps of both without Docker, and
# tests what comes of them.

ARG PG_MAJOR=18

FROM postgres:${PG_MAJOR} AS build
ARG PG_MAJOR=18
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make postgresql-server-dev-${PG_MAJOR}
COPY . /src
RUN make -C /src -j2 PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config \
	&& make -C /src PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config DESTDIR=/out install

FROM scratch AS extension
ARG PG_MAJOR=18
COPY --from=build /out/usr/share/postgresql/${PG_MAJOR}/extension /share/extension
COPY --from=build /out/usr/lib/postgresql/${PG_MAJOR}/lib /lib
COPY contrib/patroni/promote_coordinator /bin/promote_coordinator

FROM postgres:${PG_MAJOR} AS coordinator
COPY --from=build /out/usr /usr
COPY contrib/container/add_nodes.sh /docker-entrypoint-initdb.d/10-shardfdw.sh
CMD ["postgres", "-c", "shared_preload_libraries=shardfdw", "-c", "max_prepared_transactions=100"]
