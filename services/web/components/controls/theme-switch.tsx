import { chooseTheme, type Theme, themes, useTheme } from '../../state/theme.ts';
import { Icon, type IconName } from './icon.tsx';

const looks: Record<Theme, { label: string; icon: IconName }> = {
  system: { label: 'Colours of the system', icon: 'screen' },
  light: { label: 'Light colours', icon: 'sun' },
  dark: { label: 'Dark colours', icon: 'moon' },
};

export const ThemeSwitch = () => {
  const chosen = useTheme();
  return (
    <fieldset className="theme-switch">
      <legend className="visually-hidden">Colours</legend>
      {themes.map((theme) => (
        <label key={theme} title={looks[theme].label}>
          <input
            type="radio"
            name="theme"
            className="visually-hidden"
            checked={theme === chosen}
            onChange={() => chooseTheme(theme)}
          />
          <Icon name={looks[theme].icon} />
          <span className="visually-hidden">{looks[theme].label}</span>
        </label>
      ))}
    </fieldset>
  );
};
