export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M11 10.5 16.5 7v18" />
      <circle cx="22.5" cy="23.3" r="2.1" />
    </svg>
  );
}
