# The daemon: scheduler, operators and HTTP endpoints in one process, as a user without privileges.

FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/trellis
WORKDIR /src
# The lock first: its layer stays as long as no dependency changes.
COPY requirements.lock ./
RUN /opt/trellis/bin/pip install --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY crds ./crds
COPY operators ./operators
COPY scheduler ./scheduler
# The build backend comes from the lock, so this step needs no network; the image needs neither
# the backend nor pip.
RUN /opt/trellis/bin/pip install --no-deps --no-build-isolation --no-index . \
    && /opt/trellis/bin/python -m compileall -q /opt/trellis/lib \
    && /opt/trellis/bin/pip uninstall -q -y setuptools pip

FROM python:3.11-slim
LABEL org.opencontainers.image.title="trellis-scheduler" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/trellis/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/trellis /opt/trellis
USER 65532:65532
# The page (loopback only) on 10260; health, metrics and debug over HTTPS on 10259.
EXPOSE 10259
ENTRYPOINT ["trellis"]
CMD ["run"]
