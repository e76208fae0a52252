# The daemon: scheduler, operators and HTTP endpoints in one process, as a user without privileges.
#
#   docker build --build-arg BASE_DIGEST=sha256:... --build-arg REVISION=... -t trellis-scheduler .
#
# tests/release rehearses these very steps where there is no container engine; it knows the
# instructions that are used here and refuses others.

ARG BASE=python:3.11-slim
# Pins the base: a tag may move, a digest does not.
ARG BASE_DIGEST=

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1
RUN python -m venv /opt/trellis
WORKDIR /src
# The lock first: its layer stays as long as no dependency changes.
COPY requirements-image.lock ./
RUN /opt/trellis/bin/pip install --no-deps --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY charts ./charts
COPY crds ./crds
COPY docs/examples ./docs/examples
COPY operators ./operators
COPY scheduler ./scheduler
# The build backend comes from the lock, so this step needs no network. What runs needs neither the
# backend nor pip, nor the tests, headers and type stubs of its libraries, nor NumPy's build tools,
# OR-Tools' packages besides its solvers, and the messages of Google's APIs, which the exporter over
# HTTP does not import. The rest is compiled here, as the root file system is read-only later; by
# hash, so that the same sources give the same bytes.
RUN /opt/trellis/bin/pip install --no-deps --no-build-isolation --no-index . \
    && /opt/trellis/bin/pip uninstall -q -y setuptools pip \
    && find /opt/trellis -type d \( -name tests -o -path '*/numpy/_core/include' \
       -o -path '*/numpy/distutils' -o -path '*/numpy/f2py' \
       -o -path '*/google/api' -o -path '*/google/type' -o -path '*/google/rpc' \
       -o -path '*/google/cloud' -o -path '*/google/longrunning' -o -path '*/google/logging' \
       -o -path '*/ortools/constraint_solver' -o -path '*/ortools/math_opt' -o -path '*/ortools/graph' \
       -o -path '*/ortools/set_cover' -o -path '*/ortools/scheduling' \) -prune -exec rm -rf {} + \
    && find /opt/trellis \( -name '*.py[ix]' -o -name '*.pxd' -o -name '*.[ah]' -o -name '*.proto' \) -delete \
    && /opt/trellis/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/trellis/lib

FROM build AS sbom
COPY requirements-sbom.lock ./
RUN python -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --no-deps --require-hashes -r requirements-sbom.lock \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible --of JSON \
       -o /opt/sbom.cdx.json /opt/trellis/bin/python

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}}
ARG BASE
ARG BASE_DIGEST
ARG VERSION=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="trellis-scheduler" \
      org.opencontainers.image.description="A Kubernetes scheduler: groups, networks, NUMA and load in one engine" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
# The user has no entry in /etc/passwd, and the Kubernetes client asks for a home at its import.
ENV HOME=/tmp PATH=/opt/trellis/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/trellis /opt/trellis
COPY --from=sbom /opt/sbom.cdx.json /opt/trellis/share/sbom.cdx.json
USER 65532:65532
# Health, metrics and debug over HTTPS.
EXPOSE 10259
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import ssl, urllib.request as r; r.urlopen('https://127.0.0.1:10259/livez', timeout=4, context=ssl._create_unverified_context())"]
ENTRYPOINT ["trellis"]
CMD ["run"]
